import { hot } from '../../../projections/groups.ts'
import { reachedIdOf, type TrafficBudgetReached } from '../../domain/plans/traffic-budgets.ts'
import type { RecordedEvent } from '../../kernel/event.ts'
import { trafficBudgetStream } from '../../kernel/streams.ts'
import { bytesText, utcText } from '../../platform/ui/text.ts'
import type { RunningQueue } from '../../platform/work/queue.ts'
import {
  type AccountMail,
  type AccountMailDependencies,
  accountMailQueue,
  accountMailWorker,
  startAccountMails,
} from '../accounts/index.ts'
import { budgetPath, targetText } from './budget-text.ts'

/** An e-mail about one reached part of a traffic budget. */
type BudgetMail = AccountMail & { readonly reached_id: string }

export const budgetMails = accountMailQueue({
  name: 'traffic-budget-mails',
  table: 'work.traffic_budget_mails',
  key: ['reached_id'],
})

export const budgetMailWorker = accountMailWorker(budgetMails, 'Sends e-mails about used traffic budgets')

/** Sends an e-mail when 80 % of a traffic budget is used, and when all of it is used. */
export const startBudgetMails = (dependencies: AccountMailDependencies): RunningQueue =>
  startAccountMails<BudgetMail, RecordedEvent<TrafficBudgetReached>>(dependencies, {
    worker: budgetMailWorker,
    queue: budgetMails,
    group: hot.name,
    notices: 'read.traffic_budgets_reached',
    causeOf: (event, mail) => {
      if (event.type !== 'TrafficBudgetReached') return null
      const cause = event as RecordedEvent<TrafficBudgetReached>
      return event.stream === trafficBudgetStream(cause.data.budgetId) &&
        cause.data.accountId === mail.account_id &&
        reachedIdOf(cause) === mail.reached_id
        ? cause
        : null
    },
    write: ({ data }, { reached_id: id }) => ({
      id,
      subject: `${data.percent} % of a traffic budget used at ${dependencies.name}`,
      text: `${bytesText(data.usedBytes)} of ${bytesText(data.limitBytes)} are used of the traffic budget per ${data.period} for ${targetText(data)}.

${
  data.percent < 100
    ? `The budget resets at ${utcText(data.countedUntil)}.`
    : `The gateway passes no more of this traffic until ${utcText(data.countedUntil)}. To continue before, raise the limit or reset the budget.`
}

The budget: ${dependencies.origin()}${budgetPath(data.budgetId)}
`,
    }),
  })
