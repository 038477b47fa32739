import type { Provider } from '../money/payments/rails.ts'
import type { Deed, SandboxInvoice } from './invoice.ts'
import type { StandIn, Till } from './till.ts'

/** What both the controls and the pay pages need: an invoice by its address, and a deed by its name. */
export type Hands = {
  /** By the provider's id of the invoice, or by the deposit's. */
  find(id: string): Promise<SandboxInvoice | null>
  /** `cents` is what a payment pays, whole cents above 0; null for a deed of no known name. */
  deedOf(invoice: SandboxInvoice, kind: string, cents: number): Deed | null
}

export const createHands = (till: Till, standIns: Readonly<Record<Provider, StandIn>>): Hands => ({
  find: async (id) => {
    const byId = await till.find(id)
    if (byId) return byId
    const reference = await till.records.get<{ id: string }>('reference', id)
    return reference && till.find(reference.id)
  },
  deedOf: (invoice, kind, cents) => {
    if (kind === 'pay') return { kind, cents, paymentId: standIns[invoice.provider].paymentId() }
    if (kind === 'dispute') return { kind, disputeId: `dp_${till.hex(24)}` }
    if (kind === 'process' || kind === 'expire' || kind === 'fail') return { kind }
    return null
  },
})
