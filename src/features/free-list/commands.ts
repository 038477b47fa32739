import { feedFormats } from '../../domain/free-list/endpoint.ts'
import { bareCommand, command } from '../../platform/cli/command.ts'
import { argument, defaulted, flag, oneOf } from '../../platform/cli/input.ts'

const runs = () => import('./run-commands.ts')

export const importInput = {
  file: argument('<file>', 'lines of ip:port, or JSON as in feeds'),
  format: defaulted('<format>', 'the format of the file', 'text', oneOf(feedFormats)),
  dryRun: flag('only read the file'),
}

export const commands = [
  bareCommand({
    name: 'freelist sources',
    about: 'list the feeds and the result of their last read',
    columns: {
      source: 'id',
      last: 'outcome',
      at: 'readAt',
      candidates: 'candidates',
      refused: 'refused',
      new: 'added',
      problem: ({ problem }) => problem ?? '',
      from: 'fromText',
    },
    empty: 'no feeds: FAREBOX_FREELIST_SOURCES names a file of them (docs/operations/free-list.md)',
    run: async () => (await runs()).sources,
  }),
  bareCommand({
    name: 'freelist import',
    about: 'add the candidates of a file; they are checked before they are listed',
    input: importInput,
    run: async () => (await runs()).importFile,
  }),
  command({
    name: 'freelist stats',
    about: 'count the endpoints: states, protocols, anonymity, and results of the last checks',
    run: async () => (await runs()).stats,
  }),
]
