import type { Command } from 'commander'
import type { Cli } from '../platform/cli/cli-context.ts'
import type { ReadModelGroup } from '../platform/projections/read-model.ts'

/** A literal, because importing the read models loads much of the domain. */
const readModelNames =
  'balances, customers, orders, order-payments, open-orders, open-movements, open-scrapes, plans, proxies, stock, webhooks, accounts, catalog, reseller_terms, notices, deposits, gateway-changes, low-traffic, subscriptions, exits, proposals, journal, margins, scrape-usage, webhook-causes, laws'

/**
 * `projections rebuild NAME…|all [--check]`. It is safe with a running server, which continues to read and fold.
 * @param loadExtraGroups loads groups other than those of the projections
 */
export const projectionsCommands =
  (loadExtraGroups: () => Promise<readonly ReadModelGroup[]>) =>
  (program: Command, cli: Cli): void => {
    program
      .command('projections')
      .command('rebuild')
      .description(
        'fill read models from the log beside the live ones, compare the two, and put them in their place',
      )
      .argument('<name...>', `read models, or all: ${readModelNames}`)
      .option('--check', 'compare only: leave the live tables as they are, exit with 1 when they differ')
      .action(
        cli.action(async () =>
          (await import('./run-projection-commands.ts')).rebuildModels(await loadExtraGroups()),
        ),
      )
  }
