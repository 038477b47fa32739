import assert from 'node:assert/strict'
import { test } from 'node:test'
import { claimStaff, createPeople } from '../../../src/features/sign-in/people.ts'
import {
  type Browser,
  changeSessions,
  consoleBrowser,
  freshAccount,
  pressLink,
  printedLink,
  signedIn,
  staffBrowser,
} from '../../support/console.ts'
import { startService } from '../../support/service.ts'

const navigationOf = async (browser: Browser) => {
  const { html } = await browser.open('/console')
  return [...html.matchAll(/<nav[^>]*>([\s\S]*?)<\/nav>/g)]
    .flatMap(([, inside = '']) => [...inside.matchAll(/<a href="([^"]*)"[^>]*>([^<]*)<\/a>/g)])
    .map(([, path = '', label = '']) => ({ path, label }))
}

test('every entry of the navigation has its own page and its own label, for every role', async (t) => {
  const service = await startService(t, { FAREBOX_RATE_LIMIT: 'off' })
  const { core } = service.farebox
  const account = async (email: string, reseller: boolean): Promise<Browser> => {
    const { accountId } = await freshAccount(service, email, { reseller })
    const browser = await signedIn(service, accountId)
    await changeSessions(service, [accountId], `confirmed_until = now() + interval '1 hour'`)
    return browser
  }
  const withoutPasskey = async (): Promise<Browser> => {
    const member = await claimStaff(core.pool, 'new@staff.example')
    const cause = { actor: { kind: 'operator', name: 'test' }, correlationId: 'test' } as const
    await createPeople(core).grant(member, 'operator', cause)
    const browser = consoleBrowser(service)
    await pressLink(browser, await printedLink(service, member.staffId))
    await changeSessions(service, [member.staffId], `confirmed_until = now() + interval '1 hour'`)
    return browser
  }
  const viewing = async (): Promise<Browser> => {
    const browser = await staffBrowser(service, ['operator'])
    const { accountId } = await freshAccount(service, 'viewed@example.com', { reseller: true })
    const { status } = await browser.post('/console/staff', { account: accountId, reason: 'a question' })
    assert.equal(status, 303)
    return browser
  }
  const people: Readonly<Record<string, Browser>> = {
    'a customer': await account('customer@example.com', false),
    'a reseller': await account('reseller@example.com', true),
    finance: await staffBrowser(service, ['finance']),
    'an operator': await staffBrowser(service, ['operator']),
    'finance and operator': await staffBrowser(service, ['finance', 'operator']),
    'an operator who looks at an account': await viewing(),
    'staff without a passkey': await withoutPasskey(),
  }
  for (const [who, browser] of Object.entries(people))
    await t.test(who, async () => {
      const entries = await navigationOf(browser)
      assert.ok(entries.length >= 2, JSON.stringify(entries))
      const paths = entries.map(({ path }) => path)
      assert.deepEqual(paths, [...new Set(paths)])
      const labels = entries.map(({ label }) => label)
      assert.deepEqual(labels, [...new Set(labels)])
      for (const { path } of entries) {
        const { status, to } = await browser.get(path)
        assert.deepEqual({ path, status, to }, { path, status: 200, to: null })
      }
    })
})
