import type { Command } from 'commander'
import type { Clock } from '../../kernel/clock.ts'
import { counted } from '../../kernel/counted.ts'
import type { Cli, CliContext } from '../../platform/cli/cli.ts'
import { groupCommand, ledgerCommand } from '../../platform/cli/group.ts'
import { CliMisuse, type CliOutput, CliRefusal } from '../../platform/cli/output.ts'
import { openStore } from '../../platform/outgoing/store/open.ts'
import { placeExpected, placeName } from '../../platform/outgoing/store/place.ts'
import { StoreFailed } from '../../platform/outgoing/store/store.ts'
import { createDeliveryCursor } from './cursor.ts'
import { DeliveryRefused, deliverSeals } from './delivery.ts'

type Given = { readonly again?: boolean }

/** @param systemClock what requests to a bucket are signed by: it knows nothing of FAREBOX_CLOCK_OFFSET_MS */
const deliver = async (context: CliContext, systemClock: Clock, { again }: Given): Promise<CliOutput> => {
  const { pool, log, clock, config } = context
  const { place, access } = config.sealTarget
  if (place === null) throw new CliMisuse(`FAREBOX_SEAL_TARGET is not set: expected ${placeExpected}`)
  const target = placeName(place)
  const cursor = createDeliveryCursor(pool, clock, { logId: await log.logId(), target })
  if (again) await cursor.forget()
  const store = await openStore(place, access, systemClock)
  try {
    const count = await deliverSeals({ log, store, cursor, target })
    return {
      json: { target, delivered: count },
      text: count === 0 ? `${target} has every seal` : `brought ${counted(count, 'seal')} to ${target}`,
    }
  } catch (error) {
    if (!(error instanceof StoreFailed || error instanceof DeliveryRefused)) throw error
    await cursor.fail(error.message)
    const code = error instanceof StoreFailed ? 'seal_target_failed' : 'seal_target_differs'
    throw new CliRefusal(code, error instanceof StoreFailed ? `${target}: ${error.message}` : error.message)
  } finally {
    await store.close()
  }
}

/** `ledger seals deliver [--again]` */
export const registerDeliver = (program: Command, cli: Cli): void => {
  groupCommand(ledgerCommand(program), 'seals', 'the signed digests of the log (docs/seals.md)')
    .command('deliver')
    .description(
      'bring the seals that it has not to FAREBOX_SEAL_TARGET now; a running server does so by itself',
    )
    .option('--again', 'bring all of them, from the first on: for a place that lost some')
    .action(cli.action((context, given: Given) => deliver(context, cli.clock, given)))
}
