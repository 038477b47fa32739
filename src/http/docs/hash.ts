import { createHash } from 'node:crypto'

/** The text of a page's own style or script as a Content-Security-Policy names it. */
export const sourceHash = (text: string): string =>
  `'sha256-${createHash('sha256').update(text).digest('base64')}'`
