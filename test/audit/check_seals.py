"""Checks the seals of a log by docs/seals.md alone: the standard library and the openssl command, nothing of src/.

usage: check_seals.py LOG.jsonl PUBLIC_KEY_HEX
LOG.jsonl is what "farebox ledger export --format jsonl" writes (docs/exports.md): a head, one event a line, an end.
PUBLIC_KEY_HEX is the key of the first seal, got from somewhere else than the log. Prints one JSON object.
"""
import hashlib, json, struct, subprocess, sys, tempfile, uuid

def text(value):
    raw = value.encode("utf-8")
    return struct.pack(">I", len(raw)) + raw

def signed(public_key, statement, signature):
    with tempfile.TemporaryDirectory() as where:
        files = {"key": bytes.fromhex("302a300506032b6570032100" + public_key),
                 "statement": statement.encode(), "signature": bytes.fromhex(signature)}
        for name, content in files.items():
            with open(f"{where}/{name}", "wb") as file:
                file.write(content)
        return subprocess.run(
            ["openssl", "pkeyutl", "-verify", "-pubin", "-keyform", "DER", "-inkey", f"{where}/key", "-rawin",
             "-in", f"{where}/statement", "-sigfile", f"{where}/signature"], capture_output=True).returncode == 0

def lines(*values):
    return "".join(f"{value}\n" for value in values)

def check(path, key):
    digest, digests, ids, seals, sealed = hashlib.sha256(b"farebox log v1").digest(), {}, {}, 0, 0
    for ordinal, line in enumerate(open(path, encoding="utf-8").readlines()[1:-1], 1):
        event = json.loads(line)
        digest = hashlib.sha256(
            digest + struct.pack(">QQ", ordinal, event["revision"]) + uuid.UUID(event["id"]).bytes
            + text(event["stream"]) + text(event["type"]) + text(event["data"]) + text(event["metadata"])).digest()
        digests[ordinal], ids[ordinal] = digest.hex(), event["id"]
        if event["stream"] != "seal":
            continue
        seal = json.loads(event["data"])
        if event["type"] == "SealKeyRotated":
            if seal["previousPublicKey"] != key or not signed(key, lines(
                    "farebox seal key rotation v1", seal["sealedOrdinal"], seal["sealedDigest"],
                    seal["previousPublicKey"], seal["publicKey"], seal["rotatedAt"]), seal["signature"]):
                return {"ok": False, "ordinal": ordinal, "why": "a rotation that the former key did not sign"}
            key = seal["publicKey"]
            continue
        through = seal["throughOrdinal"]
        if seal["publicKey"] != key:
            return {"ok": False, "ordinal": ordinal, "why": "a seal by another key"}
        if digests.get(through) != seal["digest"] or ids.get(through) != seal["throughEventId"]:
            return {"ok": False, "ordinal": ordinal, "why": "the digest differs"}
        if not signed(key, lines("farebox log seal v1", through, seal["throughEventId"], seal["digest"],
                                 seal["sealedAt"], key), seal["signature"]):
            return {"ok": False, "ordinal": ordinal, "why": "the signature is not the key's"}
        seals, sealed = seals + 1, through
    return {"ok": True, "events": len(digests), "seals": seals, "sealed": sealed, "digest": digest.hex()}

result = check(sys.argv[1], sys.argv[2])
print(json.dumps(result))
sys.exit(0 if result["ok"] else 1)
