import assert from 'node:assert/strict'
import { test } from 'node:test'
import { claimStaff, createPeople } from '../../../src/features/sign-in/people.ts'
import {
  type Browser,
  changeSessions,
  consoleBrowser,
  pressLink,
  printedLink,
  signedIn,
  staffBrowser,
} from '../../support/console.ts'
import { operator } from '../../support/operator.ts'
import { testApp } from '../../support/test-app.ts'

const navigationOf = async (browser: Browser) => {
  const { html } = await browser.open('/console')
  return [...html.matchAll(/<nav[^>]*>([\s\S]*?)<\/nav>/g)]
    .flatMap(([, inside = '']) => [...inside.matchAll(/<a href="([^"]*)"[^>]*>([^<]*)<\/a>/g)])
    .map(([, path = '', label = '']) => ({ path, label }))
}

test('every entry of the navigation has its own page and its own label, for every role', async (t) => {
  const app = await testApp(t)
  const { core } = app
  const account = async (email: string, reseller: boolean): Promise<Browser> => {
    const { accountId } = await app.customer({ email, cents: 10_000, reseller })
    const browser = await signedIn(app, accountId)
    await changeSessions(app, [accountId], `confirmed_until = now() + interval '1 hour'`)
    return browser
  }
  const withoutPasskey = async (): Promise<Browser> => {
    const member = await claimStaff(core.pool, 'new@staff.example')
    await createPeople(core).grant(member, 'operator', operator)
    const browser = consoleBrowser(app)
    await pressLink(browser, await printedLink(app, member.staffId))
    await changeSessions(app, [member.staffId], `confirmed_until = now() + interval '1 hour'`)
    return browser
  }
  const viewing = async (): Promise<Browser> => {
    const browser = await staffBrowser(app, ['operator'])
    const { accountId } = await app.customer({ email: 'viewed@example.com', cents: 10_000, reseller: true })
    const { status } = await browser.post('/console/view', { account: accountId, reason: 'a question' })
    assert.equal(status, 303)
    return browser
  }
  const people: Readonly<Record<string, Browser>> = {
    'a customer': await account('customer@example.com', false),
    'a reseller': await account('reseller@example.com', true),
    finance: await staffBrowser(app, ['finance']),
    'an operator': await staffBrowser(app, ['operator']),
    'finance and operator': await staffBrowser(app, ['finance', 'operator']),
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
