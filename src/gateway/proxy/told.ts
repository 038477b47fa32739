import type { Opened } from './open-route.ts'

/** Header lines about the way that was taken, each with its line end. */
export const toldOf = ({ fallback, stickyMinutesLeft }: Opened): string =>
  (fallback ? 'X-Proxy-Fallback: country\r\n' : '') +
  (stickyMinutesLeft === null ? '' : `X-Proxy-Session-Minutes: ${stickyMinutesLeft}\r\n`)
