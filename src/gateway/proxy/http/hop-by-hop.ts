import { BadMessage, type Field, listOf } from './head.ts'

/** About this connection alone (RFC 9110 section 7.6.1); `Transfer-Encoding` stays, since chunks go through as they are. */
const always: ReadonlySet<string> = new Set(['connection', 'keep-alive', 'te', 'upgrade'])

/** Without these a message means something else: nobody may have them taken out. */
const never: ReadonlySet<string> = new Set([
  'host',
  'content-length',
  'transfer-encoding',
  'content-encoding',
])

export type Connection = {
  readonly close: boolean
  readonly keepAlive: boolean
  /** What `Upgrade` asks for or agrees to; null where `Connection` does not name it. */
  readonly upgrade: string | null
  /** The fields that go on to the next side. */
  readonly passed: readonly Field[]
}

/** Reads what is about the connection and takes it out, with all of `Proxy-*`. @throws BadMessage */
export const connectionOf = (fields: readonly Field[]): Connection => {
  let named: readonly string[] = []
  let proxyConnection: readonly string[] = []
  for (const { name } of fields) {
    if (name === 'connection') named = listOf(fields, name)
    if (name === 'proxy-connection') proxyConnection = listOf(fields, name)
  }
  for (const name of named)
    if (never.has(name)) throw new BadMessage(`Connection names ${name}, which is not about the connection`)
  const upgrade = named.includes('upgrade') ? listOf(fields, 'upgrade').join(', ') : ''
  return {
    close: named.includes('close') || proxyConnection.includes('close'),
    keepAlive: named.includes('keep-alive') || proxyConnection.includes('keep-alive'),
    upgrade: upgrade === '' ? null : upgrade,
    passed: fields.filter(
      ({ name }) => !always.has(name) && !name.startsWith('proxy-') && !named.includes(name),
    ),
  }
}
