import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  actionRefusal,
  applyAction,
  type InvoiceAction,
  type SandboxInvoice,
} from '../../src/sandbox/invoice.ts'

const open: SandboxInvoice = {
  ...{ id: 'cs_1', provider: 'stripe', account: 'sk_1', amountCents: 2_500, reference: 'dep_1' },
  ...{ title: 'credit', method: 'card', returnUrl: 'http://127.0.0.1/', callbackUrl: null },
  ...{ createdAtMs: 0, expiresAtMs: 1_000, status: 'open', payments: [] },
}

test('a payment is disputed once, and its dispute is closed once', () => {
  const dispute: InvoiceAction = { kind: 'dispute', disputeId: 'dp_1' }
  const close: InvoiceAction = { kind: 'close-dispute', cents: 2_500 }
  const after = (invoice: SandboxInvoice, action: InvoiceAction): SandboxInvoice => {
    assert.equal(actionRefusal(invoice, action), null)
    return applyAction(invoice, action, 0)
  }
  const paid = after(open, { kind: 'pay', cents: 2_500, paymentId: 'pi_1' })
  assert.equal(actionRefusal(paid, close), 'there is no dispute')
  const disputed = after(paid, dispute)
  assert.equal(actionRefusal(disputed, dispute), 'the payment was disputed before')
  const closed = after(disputed, close)
  for (const action of [dispute, close]) assert.notEqual(actionRefusal(closed, action), null)
})
