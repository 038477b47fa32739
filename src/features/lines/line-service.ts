import { maxWrittenBytes } from '../../domain/exits/line.ts'
import { refuse } from '../../platform/http/errors.ts'
import type { Credentials } from '../../platform/vault/credentials.ts'
import type { Gateway, OwnPlan } from '../plans/index.ts'
import { createExitAvailability } from './exit-availability.ts'
import {
  generateLines,
  isLineTemplate,
  type JsonLine,
  type LineFormat,
  type LineProtocol,
  nameBytes,
  templateMarks,
} from './generate-lines.ts'
import { type LineSets, maxSets } from './line-sets.ts'
import { type TargetingInput, targetingOf } from './targeting-input.ts'

/** The requested lines. Defaults are those of the API operation. */
export type LineInput = TargetingInput & {
  readonly count?: number | undefined
  readonly stickyMinutes?: number | undefined
  readonly protocol?: LineProtocol | undefined
  readonly format?: LineFormat | undefined
  readonly template?: string | undefined
}

export type GeneratedLines = {
  readonly planId: string
  readonly count: number
  readonly protocol: LineProtocol
  readonly format: LineFormat
  readonly stickyMinutes: number
  readonly lines: readonly (string | JsonLine)[]
}

/** One line each, to paste or save. */
export const linesText = ({ lines }: Pick<GeneratedLines, 'lines'>): string =>
  lines.map((line) => (typeof line === 'string' ? line : JSON.stringify(line))).join('\n')

/**
 * Generates lines of a plan. Nothing is charged. Only targeting that is too long for a username is stored.
 * @throws ApiError invalid_count, invalid_sticky, invalid_targeting, invalid_exclude, invalid_udp, invalid_body
 */
export type LineService = (plan: OwnPlan, lineInput: LineInput) => Promise<GeneratedLines>

export const createLineService = (
  deps: Parameters<typeof createExitAvailability>[0] & {
    readonly credentials: Credentials
    readonly gateway: Gateway
    readonly sets: LineSets
  },
): LineService => {
  const { credentials, gateway, sets } = deps
  const { sellableTargetingOf, refuseUnavailable } = createExitAvailability(deps)

  return async (plan, lineInput) => {
    const {
      count = 1,
      stickyMinutes = 0,
      format = 'host:port:user:pass',
      template,
      protocol = lineInput.udp === true ? 'socks5' : 'http',
      ...input
    } = lineInput
    const { generate, family } = sellableTargetingOf(plan)
    if (count > generate.maxCount)
      throw refuse(
        'invalid_count',
        `count must be a whole number from 1 to ${generate.maxCount}, as generate.maxCount of the plan says`,
      )
    const targeting = targetingOf(input, generate.targeting)
    if (targeting.udp && protocol !== 'socks5')
      throw refuse('invalid_udp', 'udp is for lines of SOCKS5: send protocol socks5')
    if ((format === 'custom') !== (template !== undefined))
      throw refuse('invalid_body', 'template and the format custom go together')
    if (template !== undefined && (!isLineTemplate(template) || /\p{Cc}/u.test(template)))
      throw refuse('invalid_body', `template may hold ${templateMarks} and no other braces or line breaks`)
    await refuseUnavailable(targeting, family)
    const planId = plan.planId
    const credential = credentials.of(planId, plan.generation)
    const isLong = nameBytes(credential.username, targeting) > maxWrittenBytes
    const set = isLong ? await sets.store(planId, targeting) : null
    if (isLong && set === null)
      throw refuse(
        'invalid_exclude',
        `this plan has ${maxSets} long lists already: use one of those again, or shorter ones`,
      )
    const lines = generateLines({
      count,
      stickyMinutes,
      protocol,
      format,
      template: template ?? '',
      targeting,
      set,
      gateway,
      credential,
    })
    return { planId, count, protocol, format, stickyMinutes, lines }
  }
}
