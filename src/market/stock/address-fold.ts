import type { Fold } from '../../platform/eventstore/fold.ts'
import type { AddressEvent } from './events.ts'

/** Where an address is in stock; null when it never was. */
export type AddressState = {
  readonly productId: string
  readonly country: string
  readonly retired: boolean
} | null

/** The fold of `address-{ip}`: an address is in stock once, across products. */
export const addressFold: Fold<AddressState, AddressEvent> = {
  name: 'address',
  version: 1,
  initial: null,
  evolve: (state, event) => {
    switch (event.type) {
      case 'AddressStocked':
        return { productId: event.data.productId, country: event.data.country, retired: false }
      case 'AddressRetired':
        return state && { ...state, retired: true }
      default:
        return event satisfies never
    }
  },
}
