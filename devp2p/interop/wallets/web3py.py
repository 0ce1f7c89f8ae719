"""Sends one ether with web3.py, and waits until it is mined: web3py.py URL KEY TO"""
import sys
from web3 import Web3
from web3.middleware import SignAndSendRawMiddlewareBuilder

url, key, to = sys.argv[1:]
w3 = Web3(Web3.HTTPProvider(url, request_kwargs={"timeout": 60}))
account = w3.eth.account.from_key(key)
w3.middleware_onion.inject(SignAndSendRawMiddlewareBuilder.build(account), layer=0)
print("balance", w3.eth.get_balance(account.address))
sent = w3.eth.send_transaction({"from": account.address, "to": Web3.to_checksum_address(to), "value": Web3.to_wei(1, "ether")})
print("sent", sent.hex())
receipt = w3.eth.wait_for_transaction_receipt(sent, timeout=200)
print("mined in block", receipt["blockNumber"], "status", receipt["status"])
sys.exit(0 if receipt["status"] == 1 else 1)
