import type { z } from 'zod'
import type { Send } from '../outgoing/send.ts'
import { parseExactJson } from './decimal.ts'
import { GatewayUnavailable } from './port.ts'

/** A call of a provider's JSON API; null for 404. Numbers come as their texts. */
export type JsonCall = <Shape extends z.ZodType>(
  method: 'GET' | 'POST',
  path: string,
  shape: Shape,
  options?: { readonly body?: object; readonly headers?: Readonly<Record<string, string>> },
) => Promise<z.output<Shape> | null>

/** Errors name the path and the status, never what was sent or answered. */
export const jsonApi = (
  name: string,
  send: Send,
  baseUrl: string,
  headers: Readonly<Record<string, string>>,
): JsonCall => {
  const fail = (path: string, what: string, cause?: unknown): GatewayUnavailable =>
    new GatewayUnavailable(`${name} ${path.split('?', 1)[0]}: ${what}`, { cause })
  return async (method, path, shape, options = {}) => {
    const { body, headers: more } = options
    let status: number
    let text: string
    try {
      const response = await send(`${baseUrl}${path}`, {
        method,
        headers: {
          accept: 'application/json',
          ...headers,
          ...more,
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      })
      status = response.status
      text = await response.text()
    } catch (error) {
      throw fail(path, (error as Error).message, error)
    }
    if (status === 404) return null
    if (status >= 300) throw fail(path, `status ${status}`)
    try {
      return shape.parse(parseExactJson(text))
    } catch (error) {
      throw fail(path, 'an answer that its documentation does not have', error)
    }
  }
}

/** A callback's body; null when it is no JSON. */
export const jsonOf = (raw: Buffer): unknown => {
  try {
    return JSON.parse(raw.toString('utf8'))
  } catch {
    return null
  }
}
