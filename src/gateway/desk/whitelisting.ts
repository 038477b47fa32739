import type { AccountId } from '../../kernel/ids.ts'
import type { OwnPlan } from '../../market/plans/own-plan.ts'
import { refuse } from '../../platform/http/errors.ts'
import { type TargetingInput, targetingOf } from '../lines/targeting-input.ts'
import {
  maxWhitelist,
  type NewEntry,
  networkForm,
  networkOf,
  type Whitelist,
  type WhitelistEntry,
} from '../lines/whitelist.ts'
import { createReach } from './reach.ts'

/** An address or network as somebody names it; without targeting its connections go out anywhere. */
export type NamedEntry = {
  readonly cidr: string
  readonly label?: string | undefined
  readonly targeting?: TargetingInput | undefined
}

/**
 * Lets addresses use a plan without credentials: all that are named or none.
 * @param asked `move` takes entries from other plans of the account
 * @throws ApiError invalid_ip, invalid_targeting, invalid_exclude, invalid_udp, address_taken, whitelist_limit_reached
 */
export type AddToWhitelist = (
  plan: OwnPlan,
  accountId: AccountId,
  asked: { readonly entries: readonly NamedEntry[]; readonly move: boolean },
) => Promise<readonly WhitelistEntry[]>

export const createAddToWhitelist = (
  deps: Parameters<typeof createReach>[0] & {
    readonly whitelist: Whitelist
    /** Whether loopback addresses may be on a whitelist (FAREBOX_GATEWAY_ALLOW_LOOPBACK). */
    readonly allowLoopback: boolean
  },
): AddToWhitelist => {
  const { soldOf, refuseNowhere } = createReach(deps)
  return async (found, accountId, asked) => {
    const { generate, family } = soldOf(found)
    const entries = new Map<string, NewEntry>()
    for (const [at, { cidr: text, label = '', targeting: wanted }] of asked.entries.entries()) {
      const cidr = networkOf(text, deps.allowLoopback)
      if (cidr === null) throw refuse('invalid_ip', `entries[${at}].cidr must be ${networkForm}`)
      const targeting = wanted === undefined ? null : targetingOf(wanted, generate.targeting)
      if (targeting !== null) await refuseNowhere(targeting, family)
      entries.set(cidr, { cidr, label, targeting })
    }
    const plan = { planId: found.plan_id, accountId }
    const added = await deps.whitelist.add(plan, [...entries.values()], asked.move)
    if (added.outcome === 'full')
      throw refuse(
        'whitelist_limit_reached',
        `an account has at most ${maxWhitelist} addresses on whitelists`,
      )
    if (added.outcome === 'taken')
      throw refuse('address_taken', `${added.cidr} is on the whitelist of another plan`, {
        movable: added.movable,
      })
    return added.entries
  }
}
