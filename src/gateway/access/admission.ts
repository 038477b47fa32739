import type { Line, Targeting } from '../lines/targeting.ts'
import type { Denied } from '../proxy/ports.ts'
import { tokenRefused } from './denials.ts'

/** What each part of a targeting is called among the abilities of a product. */
const abilities = (targeting: Targeting): readonly (readonly [string, boolean])[] => {
  const { country, state, city, isp, asn, os, strict, udp, not } = targeting
  const excludes = not.countries.length + not.states.length + not.cities.length + not.asns.length > 0
  return [
    ['country', country !== null],
    ['state', state !== null],
    ['city', city !== null],
    ['isp', isp !== null],
    ['asn', asn !== null],
    ['os', os !== null],
    ['strict', !strict],
    ['udp', udp],
    ['exclude', excludes],
  ]
}

/** Refuses a line that asks for what its product does not have; null for one that does not. */
export const refuseBeyond = (line: Line, sold: ReadonlySet<string>): Denied | null => {
  const beyond = abilities(line.targeting).find(([name, wanted]) => wanted && !sold.has(name))
  return beyond === undefined
    ? null
    : tokenRefused(beyond[0], `lines of this plan take ${[...sold].join(', ') || 'no targeting'}`)
}
