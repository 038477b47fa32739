/** An exit as a file describes it. */
export const good = {
  id: 'us-dal-1',
  kind: 'socks5',
  host: '127.0.0.1',
  port: 1080,
  username: 'u',
  password: 'p',
  country: 'USA',
  state: 'Texas',
  city: 'São Paulo',
  isp: 'Comcast Cable',
  asn: 7922,
}

/** A file with a line for each. */
export const file = (...lines: readonly (object | string)[]): string =>
  lines.map((line) => (typeof line === 'string' ? line : JSON.stringify(line))).join('\n')
