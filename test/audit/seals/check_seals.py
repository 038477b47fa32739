"""Checks the seals of a log by docs/finance/seals.md alone: the standard library and the openssl command, nothing of src/.

usage: check_seals.py LOG.jsonl PUBLIC_KEY

LOG.jsonl is what "farebox ledger export --format jsonl" writes (docs/finance/exports.md): a head, one event a line, an end.
PUBLIC_KEY is the key of the first seal, got from somewhere else than the log: the file with the PEM that
"farebox ledger seals public-key" prints, or the key as 64 hex digits, in a file or as it is.
Prints one JSON object. Exit codes: 0 the seals are right, 1 the log is not what was sealed, 2 wrong use, or a
file that is not a whole export.
"""
import base64, binascii, hashlib, json, re, struct, subprocess, sys, tempfile, uuid

# The fixed bytes before an Ed25519 key in its DER form (RFC 8410).
DER = "302a300506032b6570032100"

class WrongUse(Exception):
    pass

def read(path):
    try:
        with open(path, encoding="utf-8", newline="\n") as file:
            return file.read()
    except (OSError, ValueError) as error:
        raise WrongUse(f"{path} cannot be read: {error}")

def key_of(given):
    """The key as hex, from hex digits or PEM, or from a file that holds either."""
    if re.fullmatch("[0-9a-fA-F]{64}", given):
        return given.lower()
    content = (given if given.startswith("-----BEGIN ") else read(given)).strip()
    if re.fullmatch("[0-9a-fA-F]{64}", content):
        return content.lower()
    pem = re.fullmatch(r"-----BEGIN PUBLIC KEY-----\s+([A-Za-z0-9+/=\s]+?)\s+-----END PUBLIC KEY-----", content)
    try:
        der = base64.b64decode("".join(pem[1].split()), validate=True).hex() if pem else ""
    except binascii.Error:
        der = ""
    if not (der.startswith(DER) and len(der) == len(DER) + 64):
        raise WrongUse("PUBLIC_KEY holds no Ed25519 public key: give the file with the PEM that "
                       '"farebox ledger seals public-key" prints ("-----BEGIN PUBLIC KEY-----"), or 64 hex digits')
    return der[len(DER):]

def events_of(path):
    """The lines between head and end."""
    lines = read(path).split("\n")
    try:
        head, end = json.loads(lines[0]), json.loads(lines[-2])
        complete = head["format"] == "farebox-log" and end["events"] == len(lines) - 3 and lines[-1] == ""
    except (IndexError, KeyError, TypeError, ValueError):
        complete = False
    if not complete:
        raise WrongUse(f'{path} is not a whole export: "farebox ledger export --format jsonl --out {path}" writes one')
    return lines[1:-2]

def text(value):
    raw = value.encode("utf-8")
    return struct.pack(">I", len(raw)) + raw

def signed(public_key, statement, signature):
    with tempfile.TemporaryDirectory() as where:
        files = {"key": bytes.fromhex(DER + public_key),
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
    for ordinal, line in enumerate(events_of(path), 1):
        try:
            event = json.loads(line)
            digest = hashlib.sha256(
                digest + struct.pack(">QQ", ordinal, event["revision"]) + uuid.UUID(event["id"]).bytes
                + text(event["stream"]) + text(event["type"]) + text(event["data"]) + text(event["metadata"])).digest()
        except (AttributeError, KeyError, TypeError, ValueError, struct.error):
            return {"ok": False, "ordinal": ordinal, "why": "the line is not an event"}
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
        checked = [seal["checkedEvents"]] if "checkedEvents" in seal else []
        if not signed(key, lines("farebox log seal v%d" % (1 + len(checked)), through, seal["throughEventId"],
                                 seal["digest"], seal["sealedAt"], key, *checked), seal["signature"]):
            return {"ok": False, "ordinal": ordinal, "why": "the signature is not the key's"}
        seals, sealed = seals + 1, through
    return {"ok": True, "events": len(digests), "seals": seals, "sealed": sealed, "digest": digest.hex()}

def main(arguments):
    if len(arguments) != 2:
        raise WrongUse("usage: check_seals.py LOG.jsonl PUBLIC_KEY\n" + __doc__.split("\n\n")[2].strip())
    path, key = arguments
    result = check(path, key_of(key))
    print(json.dumps(result))
    return 0 if result["ok"] else 1

try:
    sys.exit(main(sys.argv[1:]))
except WrongUse as wrong:
    print(wrong, file=sys.stderr)
    sys.exit(2)
