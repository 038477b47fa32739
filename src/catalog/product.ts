import type { Delivery, Family, Renewal, Shape } from '../orders/details.ts'

export type ProductState = 'active' | 'parked' | 'retired'
export type { Delivery, Family, Renewal, Shape }
