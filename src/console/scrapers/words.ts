import type { Html } from '../../platform/pages/html.ts'
import type { Health } from '../../scrapers/provider/health.ts'
import { stateText } from '../customer/words.ts'
import { countText } from '../frame/text.ts'

export const scraperState = (live: boolean): Html =>
  live ? stateText('can be called', 'good') : stateText('nobody serves it now', 'off')

const percent = (share: number): string => `${(share * 100).toFixed(1).replace(/\.0$/, '')} %`

/** How a scraper did, in a line. */
export const healthText = (health: Health | undefined): string => {
  if (health === undefined || health.calls === 0) return 'not called'
  const { calls, successShare, p50Ms, p95Ms } = health
  return [
    `${countText(calls, 'call')}, ${successShare === null ? 'none' : percent(successShare)} answered`,
    ...(p50Ms === null ? [] : [`half of them within ${p50Ms} ms`]),
    ...(p95Ms === null ? [] : [`95 of 100 within ${p95Ms} ms`]),
  ].join(', ')
}
