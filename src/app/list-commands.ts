import type { Command } from 'commander'
import { eventDefinitions } from '../domain/events.ts'
import type { Cli } from '../platform/cli/cli-context.ts'
import { table } from '../platform/cli/output.ts'
import type { Config } from './config.ts'
import type { ListedRoute } from './list-routes.ts'
import { registerWorkers } from './workers-command.ts'

/** Who may call a route, in the words of docs/http-api.md. */
const accessText: Readonly<Record<ListedRoute['access'], string>> = {
  public: 'everybody',
  'any-key': 'any key',
  buy: 'scope buy',
  scrape: 'scope scrape',
  finance: 'finance token',
}

/** `routes`, `workers` and `events`: what a server answers, what it does by itself, and what its log holds. */
export const registerLists = (program: Command, cli: Cli<Config>): void => {
  program
    .command('routes')
    .option('--api', 'only the operations of the interface description')
    .action(
      cli.bareAction(async (config, { api }: { readonly api?: boolean }) => {
        const { listRoutes } = await import('./list-routes.ts')
        const routes = (await listRoutes(config, cli.clock)).filter(
          ({ operation }) => !api || operation !== null,
        )
        return {
          json: { routes, total: routes.length },
          text: table(routes, [
            { title: 'method', value: ({ method }) => method },
            { title: 'path', value: ({ path }) => path },
            { title: 'access', value: ({ access }) => accessText[access] },
            { title: 'operation', value: ({ operation }) => operation ?? '-' },
            { title: 'summary', value: ({ summary }) => summary },
          ]),
        }
      }),
    )

  registerWorkers(program, cli)

  program
    .command('events')
    .addHelpText('after', '\n"ledger events" prints their fields, as a page or as JSON Schema.')
    .action(
      cli.bareAction(async () => {
        const events = eventDefinitions.map(({ type, stream, means }) => ({ type, stream, means }))
        return {
          json: { events, total: events.length },
          text: table(events, [
            { title: 'event', value: ({ type }) => type },
            { title: 'stream', value: ({ stream }) => stream },
            { title: 'meaning', value: ({ means }) => means },
          ]),
        }
      }),
    )
}
