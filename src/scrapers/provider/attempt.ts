import { faultKind } from '../../platform/outgoing/fault.ts'
import type { Send } from '../../platform/outgoing/send.ts'
import type { ScraperRow } from '../catalog/row.ts'
import { classify, failure, type Verdict } from './classify.ts'
import type { ScrapeInput } from './port.ts'
import type { Asked } from './query.ts'

/** One request and what came of it. `unsent`: no connection was made, so nothing was asked and nothing charged. */
export type Attempt = Omit<Verdict, 'trouble'> & {
  readonly trouble: Verdict['trouble'] | 'unsent'
  /** The status of the answer; null where there was none. */
  readonly status: number | null
  /** Milliseconds that the provider asked to be left alone; null where it did not. */
  readonly retryAfterMs: number | null
  /** What kind of fault there was in place of an answer, for logs. */
  readonly fault: string | null
}

/** Faults of making a connection: before the first byte of the request. */
const unsentFaults = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'UND_ERR_CONNECT_TIMEOUT',
  'TargetRefused',
])

const retryAfterOf = (headers: Headers): number | null => {
  const text = headers.get('retry-after')
  return text !== null && /^\d{1,6}$/.test(text) ? Number(text) * 1_000 : null
}

const broken = (fault: string): Attempt => ({
  outcome: failure('provider_failed'),
  trouble: unsentFaults.has(fault) ? 'unsent' : 'spoilt',
  creditsCharged: null,
  creditsLeft: null,
  status: null,
  retryAfterMs: null,
  fault,
})

/** Sends one request of a row; never rejects. */
export const attempt = async (
  { row, input, asked }: { readonly row: ScraperRow; readonly input: ScrapeInput; readonly asked: Asked },
  to: {
    readonly send: Send
    readonly baseUrl: string
    readonly apiKey: string
    readonly signal: AbortSignal
  },
): Promise<Attempt> => {
  try {
    const { status, headers, text } = await to.send(`${to.baseUrl}${asked.target}`, {
      method: asked.method,
      headers: {
        'x-api-key': to.apiKey,
        accept: 'application/json',
        ...(asked.body !== undefined && { 'content-type': 'application/json' }),
      },
      ...(asked.body !== undefined && { body: asked.body }),
      signal: to.signal,
    })
    const verdict = classify(row, input, { status, text: await text() })
    return { ...verdict, status, retryAfterMs: retryAfterOf(headers), fault: null }
  } catch (error) {
    return broken(faultKind(error))
  }
}

const longestWaitMs = 2_000

/**
 * How long to wait before the one second try, in milliseconds; null where there is none. Only what cannot have been charged
 * is tried again: a connection that was never made, and an answer that says that nothing was done. A time-out behind the
 * provider may hide a charge, so a row that can cost more than one credit is not tried again after it.
 * @param random from 0 to 1
 */
export const secondTryMs = (row: ScraperRow, first: Attempt, random: () => number): number | null => {
  const jitter = 250 + random() * 500
  if (first.trouble === 'unsent') return jitter
  if (first.trouble !== 'refused') return null
  switch (first.status) {
    case 429: {
      if (first.retryAfterMs === null || first.retryAfterMs > longestWaitMs) return null
      return Math.max(jitter, first.retryAfterMs)
    }
    case 502:
    case 503:
      return jitter
    case 504:
      return row.source.maxCredits === 1 ? jitter : null
    default:
      return null
  }
}

/** Whether another provider may be asked after this one: nothing was charged, and the fault is not what was asked for. */
export const mayAskAnother = ({ trouble, outcome }: Attempt): boolean =>
  trouble === 'unsent' ||
  trouble === 'refused' ||
  trouble === 'key' ||
  trouble === 'credits' ||
  (trouble === 'drift' && outcome.kind === 'failed')
