import { anyTargeting } from '../src/domain/exits/line.ts'
import { generateLines } from '../src/features/lines/generate-lines.ts'
import { type Bench, figure } from './bench.ts'
import { percentile } from './percentile.ts'

const count = 5_000
const rounds = 200

/** What a request for the most lines holds the main thread for. */
export const lines: Bench = {
  name: 'lines',
  what: 'a request for 5,000 lines, generated and written as JSON; limit 50 ms',
  run: async ({ print }) => {
    for (const format of ['host:port:user:pass', 'json', 'custom'] as const) {
      const times = Array.from({ length: rounds }, () => {
        const startMs = performance.now()
        JSON.stringify(
          generateLines({
            count,
            stickyMinutes: 30,
            protocol: 'http',
            format,
            template: '{PROTOCOL}://{USER}:{PASS}@{HOST}:{PORT}',
            targeting: { ...anyTargeting, country: 'us', city: 'los_angeles' },
            set: null,
            gateway: { host: 'gw.example', port: 9_000, tls: null },
            credential: { username: 'u7k2m9x4u7k2m9', password: 'p4ssw0rdp4ssw0rd1234' },
          }),
        )
        return performance.now() - startMs
      }).sort((a, b) => a - b)
      const [middle, worst] = [percentile(times, 0.5), percentile(times, 0.99)]
      print(`5,000 lines as ${format}: ${figure(middle, 1)} ms, p99 ${figure(worst, 1)} ms, bar 50 ms`)
    }
  },
}
