import { InvalidArgumentError } from 'commander'
import { momentForms, momentText } from '../features/finance/for-commands.ts'
import { bareCommand, command, commandGroup, type Register, withContext } from '../platform/cli/command.ts'
import { argument, defaulted, flag, option, required, wholeNumber } from '../platform/cli/input.ts'
import {
  locationExpected,
  parseStoreLocation,
  type StoreLocation,
} from '../platform/outgoing/object-store.ts'

const seals = () => import('./seals/run-seal-commands.ts')
const externalSeals = () => import('./external-seals/run-witness-commands.ts')
const verification = () => import('./verify-command.ts')
const violations = () => import('./violation-commands.ts')

const reasonText = (text: string): string => {
  const reason = text.trim()
  if (/^[^\p{C}]{1,500}$/u.test(reason)) return reason
  throw new InvalidArgumentError('It must be 1 to 500 characters on one line.')
}

/** A location of seals; `-` is standard input. */
const fromExpected = `${locationExpected}, or - for standard input`
const location = (text: string): StoreLocation | '-' => {
  const parsed = text === '-' ? '-' : parseStoreLocation(text)
  if (parsed !== null) return parsed
  throw new InvalidArgumentError(`It must be ${fromExpected}.`)
}

/** Verification reports what was changed or removed, so nothing that is missing stops it. */
const examining = { makes: false, examines: true }

const limitInput = { limit: defaulted('<n>', 'at most this many', 20, wholeNumber(1, 10_000)) }

export const witnessInput = {
  state: required(
    '<file>',
    'the state of this witness, for "ledger verify --witness"; the first run creates it',
  ),
  key: required('<file>', 'its own key, 32 bytes in base64; the first run creates it'),
  from: option('<place>', `where the seals are: ${fromExpected}; default: FAREBOX_SEAL_TARGET`, location),
  publicKey: option('<file>', 'the key of the service, PEM or hex; needed by the first run, then pinned'),
  all: flag('read all seals from the first one, not only the last hundred'),
  maxAgeHours: option('<n>', 'exit code 1 if the newest seal is older', wholeNumber(1, 100_000)),
}

export const verifyInput = {
  seals: option(
    '<file>',
    'also compare it with exported seals, or with those at a place (file:…, https:…, s3:…) that they are delivered to: detects a log that was cut off or rewritten',
  ),
  witness: option('<file>', 'also compare it with the state of a witness ("ledger witness")'),
  witnessKey: option('<file>', 'the key that the witness must have signed with, PEM or hex'),
  publicKey: option('<file>', 'the key that must have signed, PEM or hex; default: the key of the settings'),
  maxUnsealed: option(
    '<n>',
    'exit code 1 if more events than this are not sealed. Default: 0 if no auditor is running, else any number',
    wholeNumber(0),
  ),
  list: flag('print the checks and what each of them proves; reads no database'),
}

export const decideInput = {
  eventId: argument('[eventId]', 'the event, as "ledger breaches" lists it'),
  all: flag('every open violation of events at or after --since'),
  since: option('<moment>', momentForms, momentText),
  reason: required(
    '<text>',
    'why the violation is accepted; stored in the log permanently: name no person',
    reasonText,
  ),
}

export const commands: readonly Register[] = [
  command({
    name: 'ledger seal',
    about: 'seal new events of the log now; a running auditor does so by itself',
    input: {
      remakeDigests: flag(
        'first recompute the digests of all events, e.g. after a log was restored to an earlier point',
      ),
      withoutLaws: flag('do not check the new events against the invariants of "ledger verify" first'),
    },
    run: async () => (await seals()).seal,
  }),
  commandGroup('ledger seals', 'the signed digests of the log (docs/finance/seals.md)'),
  command({
    name: 'ledger seals list',
    about: 'list the last seals, newest first, without verifying them',
    input: limitInput,
    columns: {
      'sealed at': 'sealedAt',
      events: 'throughOrdinal',
      checked: 'checkedEvents',
      digest: 'digest',
      key: ({ publicKey }) => `${publicKey.slice(0, 16)}…`,
    },
    empty: 'nothing is sealed yet; "ledger seal" seals the log',
    run: async () => (await seals()).listSealsPage,
  }),
  command({
    name: 'ledger seals export',
    about: 'write the last seals and all changes of the key to a small file, for storage elsewhere',
    input: {
      file: required('<path>', 'a new file'),
      last: defaulted('<n>', 'this many seals', 100, wholeNumber(1, 1_000_000)),
    },
    examples: ['bin/farebox ledger seals export --file seals-2026-11-21.json'],
    run: async () => (await seals()).exportSeals,
  }),
  command({
    name: 'ledger seals public-key',
    about: 'print the public key that verifies seals: store it outside of the database',
    run: async () => (await seals()).publicKey,
  }),
  command({
    name: 'ledger seals rotate-key',
    about: 'change to another key, which the present one signs; then restart the server with it',
    input: { newKeyFile: required('<path>', 'holds 32 bytes in base64') },
    examples: [
      'openssl rand -base64 32 > new-seal.key',
      'bin/farebox ledger seals rotate-key --new-key-file new-seal.key',
    ],
    run: async () => (await seals()).rotateKey,
  }),
  command({
    name: 'ledger seals deliver',
    about: 'deliver missing seals to FAREBOX_SEAL_TARGET now; a running auditor does so by itself',
    input: { again: flag('deliver all seals, from the first one, to a place that lost some') },
    run: async () => (await externalSeals()).deliver,
  }),
  bareCommand({
    name: 'ledger witness',
    about:
      'on another machine: check the delivered seals, pin and co-sign the newest; exit code 1 if they differ from the pinned ones',
    input: witnessInput,
    details:
      'FAREBOX_SEAL_TARGET_TOKEN, FAREBOX_SEAL_S3_… and FAREBOX_SEAL_TARGET_PRIVATE give access to the place (docs/finance/seals.md).',
    examples: [
      'bin/farebox ledger witness --state shop.json --key witness.key --from file:/seals --public-key seal-public.pem',
      'cat /seals/*.json | bin/farebox ledger witness --state shop.json --key witness.key --from - --public-key seal-public.pem',
    ],
    run: async () => (await externalSeals()).witness,
  }),
  bareCommand({
    name: 'ledger verify',
    about:
      'compare the whole log with its seals, its invariants and every read table; exit code 1 on any difference',
    input: verifyInput,
    details: `A server may run. It prints the first differences: the event (ordinal and id), or table, key, column and both values.
While it runs, it needs about as much disk space in Postgres as the read tables.`,
    examples: [
      'bin/farebox ledger verify',
      'bin/farebox ledger verify --seals seals-2026-11-21.json --public-key seal-public.pem',
    ],
    run: async () => {
      const { listChecks, verify } = await verification()
      return (bare, input) =>
        input.list
          ? listChecks()
          : withContext(bare, (context) => verify(context, input, bare.clock), examining)
    },
  }),
  bareCommand({
    name: 'ledger events',
    about: 'describe every event type, field by field; --json: for programs',
    run: async () => (await import('./event-dictionary-page.ts')).printEvents,
  }),
  command({
    name: 'ledger verifications',
    about: 'list the verifications, newest first; exit code 1 if their chain is broken',
    input: limitInput,
    run: async () => (await verification()).verifications,
  }),
  command({
    name: 'ledger breaches',
    about: 'list the events that violate an invariant; exit code 1 if one is not acknowledged',
    input: { open: flag('only violations that are not acknowledged') },
    details:
      'While one is open, the auditor does what FAREBOX_AUDIT_ACTION says; "ledger decide" acknowledges it.',
    run: async () => (await violations()).violationReport,
  }),
  command({
    name: 'ledger decide',
    about: 'acknowledge violations with a reason; sealing then resumes',
    input: decideInput,
    details: `A blocked account stays blocked until "accounts unblock". "ledger verify" still reports the events, with the reason; those
that were only recorded while the clocks were ahead are no finding.`,
    examples: [
      'bin/farebox ledger decide --all --since 2027-01-01T00:00:00Z --reason "the old version ran during the upgrade"',
    ],
    run: async () => (await violations()).decide,
  }),
]
