#!/usr/bin/env python3
"""Reference of docs/spec/pq-circuits.md: makes the vectors that Chive's tests check.

Written from the specification, with other implementations than Chive's: ML-KEM
from kyber-py (pure Python), X25519 and AES from cryptography (OpenSSL), SHA-3 from
hashlib.  Nothing here is fast or constant in time.

    python3 -m venv /tmp/pq && /tmp/pq/bin/pip install kyber-py==1.2.0 cryptography==50.0.2
    /tmp/pq/bin/python docs/spec/pq_reference.py > internal/handshake/testdata/pq-vectors.json
"""
import hashlib
import json
import sys

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from kyber_py.ml_kem import ML_KEM_512, ML_KEM_768, ML_KEM_1024

SETS = {1: ("512", ML_KEM_512), 2: ("768", ML_KEM_768), 3: ("1024", ML_KEM_1024)}


# --- Section 2: notation -----------------------------------------------------

def encap(s):
    return len(s).to_bytes(8, "big") + s


def h(tweak, s):
    return hashlib.sha3_256(encap(tweak) + s).digest()


def kdf(tweak, s, n):
    return hashlib.shake_256(encap(tweak) + s).digest(n)


def mac(key, tweak, s):
    return hashlib.sha3_256(encap(tweak) + encap(key) + s).digest()


def enc(key, s):
    c = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()
    return c.update(s) + c.finalize()


def pub(secret):
    return X25519PrivateKey.from_private_bytes(secret).public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)


def dh(secret, public):
    # Raises for a public key of small order, as the specification asks.
    return X25519PrivateKey.from_private_bytes(secret).exchange(X25519PublicKey.from_public_bytes(public))


def protoid(number):
    return b"chive-ntor3-curve25519-mlkem%s-sha3_256-1" % SETS[number][0].encode()


# --- Section 3: the hybrid handshake -----------------------------------------

def phase1(p, bx, ID, B, X, EK, VER):
    keys = kdf(p + b":kdf_phase1", bx + ID + X + B + p + encap(VER), 64)
    enc_k1, mac_k1 = keys[:32], keys[32:]
    return enc_k1, lambda e: mac(mac_k1, p + b":msg_mac", ID + B + X + EK + e)


def phase2(p, secret_input, n):
    key_seed = h(p + b":key_seed", secret_input)
    verify = h(p + b":verify", secret_input)
    stream = kdf(p + b":kdf_final", key_seed, 32 + n)
    return key_seed, verify, stream[:32], stream[32:]


def export(p, key_seed, label):
    return kdf(p + b":export", key_seed + encap(label), 32)


def handshake(number, b, ID, x, dz, y, m, VER, CM, SM, n):
    kem, p = SETS[number][1], protoid(number)
    B, X, Y = pub(b), pub(x), pub(y)

    # Client.
    EK, DK = kem.key_derive(dz)
    enc_k1, msg_mac = phase1(p, dh(x, B), ID, B, X, EK, VER)
    e1 = enc(enc_k1, CM)
    m1 = msg_mac(e1)
    onionskin = ID + B + X + EK + e1 + m1

    # Relay: everything again, from its own keys.
    enc_k1r, msg_macr = phase1(p, dh(b, X), ID, B, X, EK, VER)
    assert msg_macr(e1) == m1 and enc(enc_k1r, e1) == CM
    ss, CT = kem._encaps_internal(EK, m)
    si = dh(y, X) + dh(b, X) + ss + ID + B + X + Y + EK + CT + p + encap(VER)
    key_seed, verify, enc_key, keys = phase2(p, si, n)
    e2 = enc(enc_key, SM)
    auth = h(p + b":auth_final", verify + ID + B + Y + X + m1 + encap(e2) + p + b"Server")
    reply = Y + CT + auth + e2

    # Client again.
    ssc = kem.decaps(DK, CT)
    sic = dh(x, Y) + dh(x, B) + ssc + ID + B + X + Y + EK + CT + p + encap(VER)
    assert sic == si
    return dict(B=B, onionskin=onionskin, reply=reply, keys=keys, msg_mac=m1, key_seed=key_seed,
                verify=verify, auth=auth, ss=ss, export=export(p, key_seed, b"chive pq rekey 1"))


# --- Section 5: the rekey ----------------------------------------------------

def rekey(number, exporter, dz, m, VER, n):
    kem, p = SETS[number][1], protoid(number) + b"-rekey"
    EK, DK = kem.key_derive(dz)
    SET = bytes([number])
    # MAC(key, tweak, s) with the exporter secret as key.
    request = SET + EK + mac(exporter, p + b":request_mac", encap(VER) + SET + EK)
    ss, CT = kem._encaps_internal(EK, m)
    assert kem.decaps(DK, CT) == ss
    transcript = h(p + b":transcript", encap(VER) + encap(request) + encap(CT))
    key_seed = h(p + b":key_seed", exporter + ss + transcript)
    confirm_r = h(p + b":confirm_relay", key_seed + transcript)
    confirm_c = h(p + b":confirm_client", key_seed + transcript)
    return dict(request=request, reply=CT + confirm_r, confirm=confirm_c,
                keys=kdf(p + b":kdf_final", key_seed, n), export=export(p, key_seed, b"chive pq rekey 1"))


# --- The vectors -------------------------------------------------------------

def draw(name, n):
    """Bytes that look random, the same in every run."""
    return hashlib.shake_256(b"chive pq vectors: " + name.encode()).digest(n)


def main():
    out = {"origin": "docs/spec/pq_reference.py", "handshake": [], "rekey": []}
    for number in SETS:
        for case, (cm, sm) in enumerate([(0, 0), (3, 5), (128, 64)]):
            d = lambda what, n: draw("%d %d %s" % (number, case, what), n)
            ver = b"chive pq circuit extend A 1-3,8" if case else b""
            i = dict(b=d("b", 32), id=d("id", 32), x=d("x", 32), dz=d("dz", 64), y=d("y", 32),
                     m=d("m", 32), ver=ver, cm=d("cm", cm), sm=d("sm", sm))
            o = handshake(number, i["b"], i["id"], i["x"], i["dz"], i["y"], i["m"], ver, i["cm"], i["sm"], 256)
            out["handshake"].append({"set": number, **{k: v.hex() for k, v in {**i, **o}.items()}})
            ver = b"chive pq circuit extend B 1-3,8" if case else b""
            i = dict(exporter=d("exporter", 32), dz=d("dz2", 64), m=d("m2", 32), ver=ver)
            o = rekey(number, i["exporter"], i["dz"], i["m"], ver, 256)
            out["rekey"].append({"set": number, **{k: v.hex() for k, v in {**i, **o}.items()}})
    json.dump(out, sys.stdout, indent=0)
    print()


main()
