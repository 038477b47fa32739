/**
 * Whether a text is an https address that every reader takes for the same: it says `https://` and a host, with neither a
 * user name nor backslashes, spaces or control characters. The URL standard repairs `https:evil.example`,
 * `https:///evil.example` and `https:\\evil.example`; other readers see a path or another host in them.
 */
export const isHttpsAddress = (text: string): boolean =>
  /^https:\/\/[^/?#@\\]+(?:[/?#]|$)/i.test(text) &&
  /^[^\s\p{C}\\]+$/u.test(text) &&
  URL.parse(text)?.protocol === 'https:'
