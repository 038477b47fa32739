import type { NoticeDraft } from '../../src/domain/notices/decide.ts'
import { dayMs } from './rhythm.ts'

export type NoticeText = Omit<NoticeDraft, 'noticeId'>

const plain = { expiresAt: null, linkHref: null, linkLabel: null } as const

/** The notices to customers. `at`: the share of the history before the publication. */
const scheduledNotices: readonly {
  readonly at: number
  readonly text: Pick<NoticeText, 'title' | 'body' | 'kind' | 'audience'>
  readonly days: number | null
}[] = [
  {
    at: 0.04,
    text: {
      title: 'Lines for cities',
      body: 'Premium residential lines can be generated for cities now. The geo lists say which ones have exits.',
      kind: 'RELEASE',
      audience: 'CUSTOMERS',
    },
    days: null,
  },
  {
    at: 0.13,
    text: {
      title: 'Short maintenance of the gateway',
      body: 'One after another, gateways are restarted on Sunday between 03:00 and 04:00 UTC. Open connections end once.',
      kind: 'MAINTENANCE',
      audience: 'ALL',
    },
    days: 5,
  },
  {
    at: 0.24,
    text: {
      title: 'Statements of a day',
      body: 'Resellers can ask for the statement of one day, of all customers or of one.',
      kind: 'RELEASE',
      audience: 'PARTNERS',
    },
    days: null,
  },
  {
    at: 0.37,
    text: {
      title: 'Some exits in Germany failed',
      body: 'For forty minutes about a tenth of the connections to exits in Germany failed. The network is back; nothing that failed was counted.',
      kind: 'INCIDENT',
      audience: 'CUSTOMERS',
    },
    days: 20,
  },
  {
    at: 0.52,
    text: {
      title: 'New scrapers',
      body: 'There are more operations for public data of social networks. GET /v1/scrape lists them with their prices.',
      kind: 'RELEASE',
      audience: 'DEVELOPERS',
    },
    days: null,
  },
  {
    at: 0.66,
    text: {
      title: 'Addresses in Poland',
      body: 'Static ISP addresses are in stock in Warsaw and Krakow.',
      kind: 'INFO',
      audience: 'ALL',
    },
    days: 60,
  },
  {
    at: 0.81,
    text: {
      title: 'Larger packs cost less',
      body: 'From 500 GB on a gigabyte of premium residential traffic costs less than before; the price list has all steps.',
      kind: 'PRICING',
      audience: 'CUSTOMERS',
    },
    days: null,
  },
  {
    at: 0.96,
    text: {
      title: 'Maintenance of the database',
      body: 'On the next Sunday orders may be refused for up to two minutes between 02:00 and 02:30 UTC. Retries under the same key are safe.',
      kind: 'MAINTENANCE',
      audience: 'ALL',
    },
    days: 14,
  },
]

/** The notices of a day. */
export const noticesOf = (index: number, days: number, nowMs: number): readonly NoticeText[] =>
  scheduledNotices
    .filter(({ at }) => Math.floor(at * days) === index)
    .map(({ text, days: shownDays }) => ({
      ...plain,
      ...text,
      expiresAt: shownDays === null ? null : new Date(nowMs + shownDays * dayMs).toISOString(),
    }))
