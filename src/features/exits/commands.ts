import { command } from '../../platform/cli/command.ts'
import { argument, flag, option } from '../../platform/cli/input.ts'

const runs = () => import('./run-commands.ts')

const ids = argument('<ids...>', 'the ids of exits')

export const commands = [
  command({
    name: 'exits import',
    about: 'add and change exits from a file of JSON lines; other exits stay unchanged',
    input: {
      file: argument('<file>', 'one exit a line (docs/operations/gateway.md describes every kind)'),
      dryRun: flag('only check the file'),
    },
    run: async () => (await runs()).importFile,
  }),
  command({
    name: 'exits list',
    about: 'list the exits, as the log has them now',
    input: { country: option('<code>', 'only exits of this country, e.g. us') },
    columns: {
      exit: 'exitId',
      is: ({ state, sandbox }) => (sandbox ? 'sandbox' : state),
      kind: 'kind',
      at: 'endpoint',
      family: 'family',
      country: 'country',
      state: 'region',
      city: 'city',
      isp: 'isp',
      weight: 'weight',
      capacity: 'capacity',
      udp: ({ udp }) => (udp ? 'yes' : 'no'),
    },
    empty: 'no exits',
    run: async () => (await runs()).list,
  }),
  command({
    name: 'exits check',
    about: 'check from this machine whether exits answer; no traffic passes through them',
    input: { ids: argument('[ids...]', 'default: all exits') },
    columns: {
      exit: 'exitId',
      answers: ({ ok }) => (ok ? 'yes' : 'no'),
      ms: ({ latencyMs }) => Math.round(latencyMs),
      problem: ({ problem }) => problem ?? '',
    },
    empty: 'no exits',
    run: async () => (await runs()).check,
  }),
  command({
    name: 'exits drain',
    about: 'drain exits: no new connections; existing connections and sticky sessions finish',
    input: { ids, undo: flag('use the exits again') },
    run: async () => (await runs()).drain,
  }),
  command({
    name: 'exits remove',
    about: 'remove exits; an import of the same id restores one',
    input: { ids },
    run: async () => (await runs()).remove,
  }),
]
