import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import * as refusals from '../../src/gateway/refusals.ts'

const root = join(import.meta.dirname, '../..')
const page = readFileSync(join(root, 'docs/operations/troubleshooting.md'), 'utf8')
const sources = globSync('src/**/*.ts', { cwd: root }).map((file) => readFileSync(join(root, file), 'utf8'))

test('the service has every message that the troubleshooting page quotes; … stands for a value', () => {
  const messages = [...page.matchAll(/^> (.+)$/gm)].map(([, message = '']) => message)
  assert.ok(messages.length >= 15, `${messages.length} messages`)
  for (const message of messages)
    for (const part of message.split('…').map((text) => text.trim().replace(/^[().,;:]+|[().,;:]+$/g, '')))
      assert.ok(
        sources.some((source) => source.includes(part)),
        `${message}: ${part}`,
      )
})

test('the troubleshooting page lists the 407s and the statuses of its own of the gateway', () => {
  for (const { status, error } of Object.values(refusals).filter((value) => typeof value === 'object'))
    if (status === 407 || (status >= 460 && status < 470) || status > 560)
      assert.match(page, new RegExp(`^\\| ${status} \\|.*\`${error}\``, 'm'))
})
