import { command } from '../../platform/cli/command.ts'
import { argument, option } from '../../platform/cli/input.ts'

const runs = () => import('./run-commands.ts')

const input = { file: argument('<file>', 'a catalogue file (docs/operations/catalog.md)') }

export const setStateInput = {
  product: argument('<product>', 'the id of a product'),
  state: argument('<state>', 'active, parked or retired'),
  successor: option('<id>', 'the product to buy instead; required with retired'),
}

export const commands = [
  command({
    name: 'catalog import',
    about: 'check a catalogue file as a whole and make it the catalogue',
    input,
    run: async () => (await runs()).importFile,
  }),
  command({
    name: 'catalog check',
    about: 'check a catalogue file, also against the current catalogue, and change nothing',
    input,
    run: async () => (await runs()).checkFile,
  }),
  command({
    name: 'catalog set-state',
    about: 'park, retire or reactivate one product between imports',
    input: setStateInput,
    run: async () => (await runs()).setState,
  }),
]
