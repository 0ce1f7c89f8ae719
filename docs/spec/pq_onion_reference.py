#!/usr/bin/env python3
"""Reference of docs/spec/pq-onions.md: makes the vectors that Chive's tests check.

Written from the specification and from rend-spec-v3 (hs-ntor), with other
implementations than Chive's: ML-KEM from kyber-py (pure Python), X25519 from
cryptography (OpenSSL), SHA-3 from hashlib.  Nothing here is fast or constant in time.

    python3 -m venv /tmp/pq && /tmp/pq/bin/pip install kyber-py==1.2.0 cryptography==50.0.2
    /tmp/pq/bin/python docs/spec/pq_onion_reference.py > internal/handshake/testdata/pq-onion-vectors.json
"""
import base64
import hashlib
import json
import sys

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from kyber_py.ml_kem import ML_KEM_768

SET = bytes([2])
PROTOID = b"chive-hs-ntor-curve25519-mlkem768-sha3_256-1"
HS_PROTOID = b"tor-hs-ntor-curve25519-sha3-256-1"
VER = b"chive pq onion H 2"
VER_REKEY = b"chive pq onion B 2"
KEYS = 160  # of each stream of keys: CGO takes them all, tor1 the first 128


def encap(s):
    return len(s).to_bytes(8, "big") + s


def sha3(s):
    return hashlib.sha3_256(s).digest()


def h(tweak, s, p=PROTOID):
    return sha3(encap(p + b":" + tweak) + s)


def kdf(tweak, s, n, p=PROTOID):
    return hashlib.shake_256(encap(p + b":" + tweak) + s).digest(n)


def pub(secret):
    return X25519PrivateKey.from_private_bytes(secret).public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)


def dh(secret, public):
    return X25519PrivateKey.from_private_bytes(secret).exchange(X25519PublicKey.from_public_bytes(public))


def fragments(msg, size):
    step = size - 4
    return [len(msg).to_bytes(2, "big") + i.to_bytes(2, "big") + msg[i:i + step] for i in range(0, len(msg), step)]


# --- rend-spec-v3: the rendezvous part of hs-ntor ------------------------------

def hs_ntor(b, auth, x, y):
    """NTOR_KEY_SEED and AUTH, by the service's secrets; checked with the client's."""
    B, X, Y = pub(b), pub(x), pub(y)
    assert dh(y, X) == dh(x, Y) and dh(b, X) == dh(x, B)
    secret = dh(y, X) + dh(b, X) + auth + B + X + Y + HS_PROTOID
    mac = lambda key, msg: sha3(encap(key) + msg)
    seed = mac(secret, HS_PROTOID + b":hs_key_extract")
    verify = mac(secret, HS_PROTOID + b":hs_verify")
    proof = mac(verify + auth + B + Y + X + HS_PROTOID + b"Server", HS_PROTOID + b":hs_mac")
    return seed, proof


# --- Section 2 ----------------------------------------------------------------

def item(ek):
    text = base64.b64encode(ek).decode()
    lines = [text[i:i + 64] for i in range(0, len(text), 64)]
    return "\n".join(["chive-pq-kem 2", "-----BEGIN ML-KEM PUBLIC KEY-----", *lines, "-----END ML-KEM PUBLIC KEY-----", ""])


# --- Sections 3 to 5 ----------------------------------------------------------

def carriage_h(blinded, auth, b, x, y, dz, m, n):
    B, X, Y = pub(b), pub(x), pub(y)
    EK, DK = ML_KEM_768.key_derive(dz)
    ss, CT = ML_KEM_768._encaps_internal(EK, m)
    assert ML_KEM_768.decaps(DK, CT) == ss
    ext = SET + sha3(EK)[:8] + sha3(CT)
    ntor_seed, proof = hs_ntor(b, auth, x, y)
    s = hashlib.shake_256(encap(HS_PROTOID + b":export") + ntor_seed + encap(b"chive pq onion H")).digest(32)
    transcript = h(b"transcript", encap(VER) + blinded + auth + B + X + Y + encap(EK) + encap(CT))
    key_seed = h(b"key_seed", s + ss + transcript)
    return dict(
        B=B, ek=EK, item=item(EK).encode(), ext=ext, ct=CT, rendezvous=Y + proof, s=s, ss=ss, transcript=transcript,
        hs_keys=hashlib.shake_256(ntor_seed + HS_PROTOID + b":hs_key_expand").digest(KEYS),
        key_seed=key_seed, confirm=h(b"confirm_service", key_seed + transcript), keys=kdf(b"kdf_final", key_seed, n),
        export=kdf(b"export", key_seed + encap(b"chive pq rekey 1"), 32),
        fragments=b"".join(fragments(CT, 498)), fragments_cgo=b"".join(fragments(CT, 490)))


# --- Section 7: carriage B of pq-circuits.md, section 5 ------------------------

def rekey(s, dz, m, n):
    p = b"chive-ntor3-curve25519-mlkem768-sha3_256-1-rekey"
    EK, DK = ML_KEM_768.key_derive(dz)
    mac = sha3(encap(p + b":request_mac") + encap(s) + encap(VER_REKEY) + SET + EK)
    request = SET + EK + mac
    ss, CT = ML_KEM_768._encaps_internal(EK, m)
    assert ML_KEM_768.decaps(DK, CT) == ss
    transcript = h(b"transcript", encap(VER_REKEY) + encap(request) + encap(CT), p)
    key_seed = h(b"key_seed", s + ss + transcript, p)
    return dict(rekey_request=request, rekey_reply=CT + h(b"confirm_relay", key_seed + transcript, p),
                rekey_confirm=h(b"confirm_client", key_seed + transcript, p), rekey_keys=kdf(b"kdf_final", key_seed, n, p))


def draw(name, n):
    """Bytes that look random, the same in every run."""
    return hashlib.shake_256(b"chive pq onion vectors: " + name.encode()).digest(n)


def main():
    out = {"origin": "docs/spec/pq_onion_reference.py", "onion": []}
    for case in range(4):
        d = lambda what, n: draw("%d %s" % (case, what), n)
        i = dict(blinded=d("blinded", 32), auth=d("auth", 32), b=d("b", 32), x=d("x", 32), y=d("y", 32), dz=d("dz", 64), m=d("m", 32))
        o = carriage_h(**i, n=KEYS)
        j = dict(rekey_dz=d("rekey dz", 64), rekey_m=d("rekey m", 32))
        r = rekey(o["export"], j["rekey_dz"], j["rekey_m"], KEYS)
        out["onion"].append({k: v.hex() for k, v in {**i, **o, **j, **r}.items()})
    json.dump(out, sys.stdout, indent=0)
    print()


main()
