import type { Send } from './send.ts'

/** Its `code` is what a log says of it. */
class TooManyAtOnce extends Error {
  override readonly name = 'TooManyAtOnce'
  readonly code = 'too_many_at_once'
}

/**
 * Sends at most so many requests at once; one more is refused before anything is sent. Who answers slowly, or never,
 * holds up no more of the service than that.
 * @throws TooManyAtOnce
 */
export const atMost = (limit: number, send: Send): Send => {
  let underWay = 0
  const counted = async <Value>(work: () => Promise<Value>): Promise<Value> => {
    underWay += 1
    try {
      return await work()
    } finally {
      underWay -= 1
    }
  }
  return async (url, init) => {
    if (underWay >= limit) throw new TooManyAtOnce(`${limit} requests are under way`)
    const { status, headers, text } = await counted(() => send(url, init))
    return { status, headers, text: () => counted(text) }
  }
}
