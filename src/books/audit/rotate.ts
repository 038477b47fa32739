import { type Clock, isoTime } from '../../kernel/clock.ts'
import type { CommandRunner } from '../../platform/eventstore/commands/command.ts'
import type { Cause } from '../../platform/eventstore/event.ts'
import { sealStream } from '../../terms/streams.ts'
import { decideRotation } from './decide.ts'
import { startDigest } from './digest.ts'
import type { LogSealed, SealKeyRotated } from './events.ts'
import { sealFold } from './fold.ts'
import { rotationStatement, type SealKey, sealStatement } from './seal-key.ts'
import { readSeals, SealRefused } from './sealing.ts'

const maxRounds = 10

/**
 * Hands the signing of the log over to another key: an event that the old key signs, and a seal by the new one of what
 * was sealed last. True when it was done now, false when the new key signs already.
 * @throws SealRefused when the old key does not sign this log
 */
export const rotateSealKey = async (
  deps: {
    readonly runner: CommandRunner
    readonly clock: Clock
    readonly key: SealKey
    readonly next: SealKey
  },
  cause: Cause,
): Promise<boolean> => {
  const { runner, clock, key, next } = deps
  for (let round = 0; round < maxRounds; round += 1) {
    const { last } = await readSeals(runner, cause)
    const at = isoTime(clock())
    const handover = {
      sealedOrdinal: last?.throughOrdinal ?? 0,
      sealedDigest: last?.digest ?? startDigest().toString('hex'),
      previousPublicKey: key.publicKey,
      publicKey: next.publicKey,
      rotatedAt: at,
    }
    const rotation: SealKeyRotated['data'] = { ...handover, signature: key.sign(rotationStatement(handover)) }
    const again = last && { ...last, sealedAt: at, publicKey: next.publicKey }
    const countersigned: LogSealed['data'] | null = again && {
      ...again,
      signature: next.sign(sealStatement(again)),
    }
    const { answer } = await runner.run({
      name: 'rotate-seal-key',
      streams: { seal: { stream: sealStream, fold: sealFold } },
      decide: ({ seal }) => decideRotation(seal, rotation, countersigned),
      ...cause,
    })
    switch (answer.outcome) {
      case 'rotated':
        return true
      case 'already_rotated':
        return false
      case 'key_retired':
        throw new SealRefused(
          `the log is sealed by the key ${answer.publicKey}; FAREBOX_SEAL_KEY is ${key.publicKey} and cannot hand over`,
        )
      case 'moved':
        break // sealed meanwhile: hand over after that seal
      default:
        answer satisfies never
    }
  }
  throw new Error('the log is sealed so often that the key could not be handed over; try again')
}
