import { writeFile } from 'node:fs/promises'
import { pluralize } from '../../kernel/formats.ts'
import type { CliContext } from '../../platform/cli/cli-context.ts'
import { CliMisuse, CliRefusal } from '../../platform/cli/output.ts'
import { stepsOf, withProgress } from '../../platform/cli/progress-bar.ts'
import { replaceSealKey } from '../../platform/vault/keys.ts'
import { openUnsealedCheck } from '../signatures/unsealed-check.ts'
import { UnresolvedViolation } from '../violations.ts'
import { createDigestStore } from './digests.ts'
import { listSeals, sealsFileOf } from './seal-queries.ts'
import { chainToHead, openSealing, readSeals, rotateSealKey, SealRefused } from './sealing.ts'
import { publicKeyPem, readSealKey, type SealsFile, sealKeyOf } from './seals-file.ts'

/**
 * Seals all new events by the same rules as a server; null when there are none.
 * @throws CliRefusal `law_broken`, `not_checked`, `guards_differ`, `seal_refused`
 */
const sealNow = async (
  context: CliContext,
  { remake, check }: { readonly remake: boolean; readonly check: boolean },
): Promise<number | null> => {
  const { auditorPool, log, runner, keys, clock, config } = context
  const store = createDigestStore(auditorPool, await log.logId())
  if (remake) await store.clear()
  return withProgress(async (bar) => {
    const key = sealKeyOf(keys.seal)
    const checks = check && config.checkInvariants
    const openSignatures =
      checks && config.eventStoreUrl === null
        ? (sealed: number) => openUnsealedCheck({ ...context, publicKey: key.publicKey }, sealed)
        : undefined
    const openedSealing = await openSealing({ log, runner, store, key, clock, openSignatures }, context)
    await chainToHead(log, openedSealing.chain, stepsOf(bar, 'digests', await log.head()))
    if (checks && config.auditAction !== 'alarm') {
      const { refuseUnresolvedViolations } = await import('../violation-commands.ts')
      await refuseUnresolvedViolations(context, openedSealing.chain.sealedThrough())
    }
    return (await openedSealing.seal(context))?.throughOrdinal ?? null
  }).catch((error) => {
    if (error instanceof SealRefused) throw new CliRefusal('seal_refused', error.message)
    if (error instanceof UnresolvedViolation) throw new CliRefusal('law_broken', error.message)
    throw error
  })
}

const exportFile = async (context: CliContext, last: number): Promise<SealsFile> => {
  const file = await sealsFileOf(context, last)
  if (file === null) throw new CliRefusal('not_found', 'nothing is sealed yet; "ledger seal" seals the log')
  return file
}

export const seal = async (
  context: CliContext,
  {
    remakeDigests: remake = false,
    withoutLaws = false,
  }: { readonly remakeDigests?: boolean; readonly withoutLaws?: boolean },
) => {
  const throughOrdinal = await sealNow(context, { remake, check: !withoutLaws })
  return {
    json: { sealed: throughOrdinal !== null, throughOrdinal },
    text:
      throughOrdinal === null
        ? 'everything is sealed already'
        : `sealed the log up to event ${throughOrdinal}`,
  }
}

export const listSealsPage = async ({ log }: CliContext, { limit }: { limit: number }) => {
  const page = await listSeals(log, { limit, offset: 0 })
  return { json: { seals: page.seals }, rows: page.seals }
}

export const exportSeals = async (
  context: CliContext,
  { file: path, last }: { file: string; last: number },
) => {
  const file = await exportFile(context, last)
  try {
    await writeFile(path, `${JSON.stringify(file, null, 2)}\n`, { flag: 'wx', mode: 0o600 })
  } catch (error) {
    throw new CliMisuse(`${path} cannot be written: ${(error as Error).message}`)
  }
  const throughOrdinal = Math.max(
    ...file.seals.map((seal) => (seal.type === 'LogSealed' ? seal.data.throughOrdinal : 0)),
  )
  return {
    json: { file: path, seals: file.seals.length, throughOrdinal },
    text: `wrote ${pluralize(file.seals.length, 'seal')} to ${path}; the last covers ${pluralize(throughOrdinal, 'event')}`,
  }
}

export const publicKey = async ({ keys }: CliContext) => {
  const { publicKey } = sealKeyOf(keys.seal)
  return { json: { publicKey }, text: publicKeyPem(publicKey).trim() }
}

export const rotateKey = async (context: CliContext, { newKeyFile }: { newKeyFile: string }) => {
  const { pool, config, keys, runner, clock } = context
  const seed = await readSealKey(newKeyFile)
  const [key, nextKey] = [sealKeyOf(keys.seal), sealKeyOf(seed)]
  if (key.publicKey === nextKey.publicKey) throw new CliMisuse(`${newKeyFile} holds the key that signs now`)
  const existingSeals = await readSeals(runner, context)
  if (existingSeals.publicKey !== nextKey.publicKey) await sealNow(context, { remake: false, check: true })
  try {
    await rotateSealKey({ runner, clock, key, next: nextKey }, context)
  } catch (error) {
    if (error instanceof SealRefused) throw new CliRefusal('seal_refused', error.message)
    throw error
  }
  await replaceSealKey(config, pool, seed)
  const keySetting = config.sealKey === null ? 'seal.key under FAREBOX_DATA' : 'FAREBOX_SEAL_KEY'
  return {
    json: { previousPublicKey: key.publicKey, publicKey: nextKey.publicKey },
    text: `${nextKey.publicKey} signs from now on, and ${key.publicKey} vouched for it. Restart the server with it as ${keySetting}; until then nothing is sealed.`,
  }
}
