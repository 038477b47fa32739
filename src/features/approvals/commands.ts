import { InvalidArgumentError } from 'commander'
import { command } from '../../platform/cli/command.ts'
import { argument, defaulted, flag, option, wholeNumber } from '../../platform/cli/input.ts'
import { maxCents, referenceText } from '../wallet/for-commands.ts'

const runs = () => import('./run-commands.ts')

const limitCents = (text: string): number | null => {
  if (text === 'off') return null
  if (/^\d+$/.test(text)) return wholeNumber(0, maxCents)(text)
  throw new InvalidArgumentError(`It must be whole cents from 0 to ${maxCents}, or off.`)
}

const proposal = argument('<proposal>', 'its id')
const closeInput = {
  proposal,
  note: option('<text>', 'why; stored in the log permanently: name no person', referenceText),
}

export const commands = [
  command({
    name: 'four-eyes show',
    about: 'show the limit as the log has it',
    run: async () => (await runs()).setting,
  }),
  command({
    name: 'four-eyes set',
    about:
      'set the amount that one operator may move alone; effective after a minute. A higher limit needs approval, too',
    input: {
      limit: argument(
        '<cents>',
        'the limit in whole cents; 0: every movement needs an approval; off: none does',
        limitCents,
      ),
    },
    examples: ['bin/farebox four-eyes set 10000', 'bin/farebox four-eyes set off'],
    run: async () => (await runs()).set,
  }),
  command({
    name: 'proposals list',
    about: 'list proposals that need approval, newest first, from the read tables',
    input: {
      all: flag('include approved, closed and expired proposals'),
      limit: defaulted('<n>', 'at most this many', 100, wholeNumber(1, 1_000)),
    },
    columns: {
      proposal: 'proposalId',
      state: 'status',
      what: 'whatText',
      account: 'accountId',
      by: 'proposedBy',
      until: 'expiresAt',
    },
    run: async () => (await runs()).list,
  }),
  command({
    name: 'proposals show',
    about: 'show one proposal as the log has it',
    input: { proposal },
    run: async () => (await runs()).show,
  }),
  command({
    name: 'proposals approve',
    about: "approve another operator's proposal: it is carried out, once",
    input: { proposal },
    details:
      'If it cannot be carried out now, for example because the wallet is short, nothing moves and it stays open.',
    examples: [
      'bin/farebox proposals list',
      'bin/farebox proposals approve prp_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b',
    ],
    run: async () => (await runs()).approve,
  }),
  command({
    name: 'proposals decline',
    about: "decline another operator's proposal",
    input: closeInput,
    run: async () => (await runs()).decline,
  }),
  command({
    name: 'proposals withdraw',
    about: 'withdraw your own proposal',
    input: closeInput,
    run: async () => (await runs()).withdraw,
  }),
]
