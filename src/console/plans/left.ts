import type { FoundPlan } from '../../market/plans/record.ts'
import { type Html, html } from '../../platform/pages/html.ts'
import { bytesText } from '../frame/text.ts'

/** What is left of a plan, as a figure and as a bar. */
export const leftOf = ({ total_bytes: total, used_bytes: used, speed_units: speed }: FoundPlan): Html => {
  if (total === null) return html`${speed ?? 0} units of speed`
  const left = Math.max(0, total - used)
  return html`${bytesText(left)} <small>of ${bytesText(total)}</small><br><meter min="0" max="${total}" low="${Math.floor(total / 10)}" value="${left}" aria-label="left of the plan"></meter>`
}
