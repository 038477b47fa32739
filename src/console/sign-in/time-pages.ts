import { isoTime } from '../../kernel/clock.ts'
import { html } from '../../platform/pages/html.ts'
import { timeText } from '../frame/text.ts'
import { textInZone, zoneOf, zones } from '../frame/zone.ts'
import { dropCookie, setCookie } from '../pages/cookies.ts'
import { consolePath } from '../pages/origin.ts'
import { type ConsolePage, goTo, openPage, show, type Visit } from '../pages/page.ts'

const path = '/console/times'
const yearS = 365 * 86_400

const form = ({ zone, query, nowMs }: Visit) =>
  show({
    title: 'Times',
    body: html`<p>It is ${timeText(isoTime(nowMs))}. Pages say times in UTC, as files and the API do, or in a time zone of yours. Days and months, by which money and traffic are added up, stay those of UTC.</p>
<form method="post" action="${path}" class="stack">
<input type="hidden" name="to" value="${consolePath(query.get('back') ?? '/console')}">
<div class="field"><label for="zone">Time zone</label><select id="zone" name="zone"><option value="UTC">UTC</option>${zones.map(
      (each) =>
        html`<option value="${each}"${each === zone ? { html: ' selected' } : null}>${each.replaceAll('_', ' ')}</option>`,
    )}</select></div>
<div class="acts"><button class="first">Show times so</button></div>
</form>`,
  })

/** In which time zone pages say times in this browser. */
export const timePages: readonly ConsolePage[] = [
  openPage({
    path,
    name: 'setZone',
    summary: 'The time zone of times on pages, in this browser',
    show: async (visit) => form(visit),
    act: {
      harmless: true,
      run: async ({ nowMs }, typed) => {
        const zone = zoneOf(typed.text('zone'))
        const said =
          zone === null
            ? 'Times are in UTC.'
            : `Times are those of ${zone}: ${textInZone(isoTime(nowMs), zone)}.`
        return {
          ...goTo(consolePath(typed.text('to')), said),
          cookies: [zone === null ? dropCookie('zone') : setCookie('zone', zone, 'Lax', yearS)],
        }
      },
    },
  }),
]
