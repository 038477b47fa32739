import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { HowToStep } from '../../src/market/catalog/how-to.ts'
import { startService } from '../support/service.ts'

type Found = Partial<Record<'orderId' | 'planId' | 'proxyId' | 'subscriptionId', string>>

const fill = (text: string, found: Found): string =>
  text.replaceAll(/\{(orderId|planId|proxyId|subscriptionId)\}/g, (placeholder, name: keyof Found) => {
    assert.ok(found[name], `${placeholder} stands in a step before any answer named it`)
    return found[name]
  })

// biome-ignore lint/suspicious/noExplicitAny: answers of many routes
const noted = (found: Found, body: any): Found => ({
  ...found,
  ...(body.orderId && !found.orderId && { orderId: body.orderId }),
  ...(body.planId && { planId: body.planId }),
  ...(body.subscriptionId && { subscriptionId: body.subscriptionId }),
  ...(body.proxyIds?.length > 0 && { proxyId: body.proxyIds[0] }),
})

test('every how-to step of every product can be sent word for word', async (t) => {
  const { buyer, reseller } = await startService(t)
  for (const api of [buyer, reseller]) {
    const { body } = await api.get('/api/v1/products')
    for (const product of body.products) {
      const steps: readonly HowToStep[] = product.howTo
      assert.equal(steps.length > 0, product.state === 'active', product.id)
      const subscribes = steps.some(({ path }) => path === '/api/v1/subscriptions')
      assert.equal(subscribes, product.state === 'active' && product.billing.subscription, product.id)
      let found: Found = {}
      for (const { step, method, path, headers, body: asked } of steps) {
        const answer = await api.call(method, fill(path, found), {
          headers,
          ...(asked !== null && { raw: fill(JSON.stringify(asked), found) }),
        })
        assert.ok(answer.status < 300, `${product.id}, step ${step}: ${answer.text}`)
        found = noted(found, answer.body)
        if (method === 'DELETE') assert.equal(answer.body.cancelAtPeriodEnd, true)
      }
    }
  }
})
