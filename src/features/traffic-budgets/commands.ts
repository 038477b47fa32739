import { InvalidArgumentError } from 'commander'
import { budgetPeriods } from '../../domain/plans/budget-periods.ts'
import { externalIdForm, parseExternalId } from '../../kernel/external-id.ts'
import type { AccountId } from '../../kernel/ids.ts'
import { command } from '../../platform/cli/command.ts'
import {
  argument,
  defaulted,
  id,
  oneOf,
  option,
  pageInput,
  required,
  wholeNumber,
} from '../../platform/cli/input.ts'
import { maxLimitBytes, minLimitBytes } from './budget-limits.ts'

const runs = () => import('./run-commands.ts')

const externalId = (text: string): string => {
  const parsed = parseExternalId(text)
  if (parsed !== null) return parsed
  throw new InvalidArgumentError(`It must be ${externalIdForm}.`)
}

const account = required('<id>', 'the account of the plans', id<AccountId>)

export const listInput = {
  account,
  plan: option('<id>', 'only budgets of this plan, its line sets and its whitelist entries'),
  ...pageInput,
}

export const setInput = {
  account,
  plan: option('<id>', 'the plan'),
  customer: option(
    '<id>',
    "without --plan: all plans of this customer; the reseller's id of the customer, and the first use creates the customer",
    externalId,
  ),
  lineSet: option('<id>', 'only lines of this set of the plan: -set- in their usernames'),
  whitelistEntry: option('<id>', "only connections of this entry of the plan's whitelist"),
  period: required('<period>', 'a week begins on Monday', oneOf(budgetPeriods)),
  timeZone: defaulted('<zone>', 'the time zone of the periods (IANA)', 'UTC'),
  limitBytes: required(
    '<n>',
    'the maximum traffic of a period in both directions; 1 GB is 1,000,000,000',
    wholeNumber(minLimitBytes, maxLimitBytes),
  ),
}

export const budgetInput = { budget: argument('<budget>', 'the budget, tbg_…') }

const accountExample = '--account acc_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b'
const planExample = '--plan pln_7d0f8f2e2f0b5a7c9a3c1f8d2b6e4a10'
const budgetExample = 'tbg_3b9e5d0c1f2a5b6c8d7e9f0a1b2c3d4e'

export const commands = [
  command({
    name: 'traffic-budgets list',
    about: 'list the traffic budgets of an account and their use, newest first',
    input: listInput,
    examples: [
      `bin/farebox traffic-budgets list ${accountExample}`,
      `bin/farebox traffic-budgets list ${accountExample} ${planExample} --json`,
    ],
    run: async () => (await runs()).list,
  }),
  command({
    name: 'traffic-budgets set',
    about: 'limit the traffic of a plan or a customer in a day, a week or a month',
    input: setInput,
    details:
      'A plan, a line set, a whitelist entry or a customer has one budget for each period. A second call changes its limit and its time zone.',
    examples: [
      `bin/farebox traffic-budgets set ${accountExample} \\\n    ${planExample} --period day --time-zone Europe/Berlin --limit-bytes 5000000000`,
      `bin/farebox traffic-budgets set ${accountExample} \\\n    --customer alice-17 --period month --limit-bytes 100000000000 --json`,
    ],
    run: async () => (await runs()).set,
  }),
  command({
    name: 'traffic-budgets reset',
    about: 'begin the count of the current period again at 0',
    input: budgetInput,
    examples: [
      `bin/farebox traffic-budgets reset ${budgetExample}`,
      `bin/farebox traffic-budgets reset ${budgetExample} --json`,
    ],
    run: async () => (await runs()).reset,
  }),
  command({
    name: 'traffic-budgets remove',
    about: 'remove a traffic budget',
    input: budgetInput,
    examples: [
      `bin/farebox traffic-budgets remove ${budgetExample}`,
      `bin/farebox traffic-budgets remove ${budgetExample} --json`,
    ],
    run: async () => (await runs()).remove,
  }),
]
