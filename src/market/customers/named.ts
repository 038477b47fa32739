import { z } from 'zod'
import { refuse } from '../../platform/http/errors.ts'

/** Whom a thing is for, the same on everything that a reseller reads: our id of the customer, and the reseller's own. */
export const customerIdField = z
  .string()
  .nullable()
  .meta({ description: "The reseller's customer that it is for, by our id; null: the account itself." })
export const customerField = z
  .string()
  .nullable()
  .meta({ description: "The same customer by the reseller's own id; null once that was erased." })

/**
 * That a request which charges names whom a plan or a rental is held for: what a customer holds is paid by that
 * customer, never by mistake by the reseller. What was found within the scope of a request that names a customer is that
 * customer's.
 * @param holder Whom it is held for; null: the account itself
 * @param named The customer of the request; null: none
 * @param what What is held, as the refusal tells it
 * @throws ApiError invalid_customer_id (a customer's, and none is named)
 */
export const refuseUnnamedHolder = (holder: string | null, named: string | null, what: string): void => {
  if (holder === named) return
  if (named !== null) throw new Error(`${what} was found for a customer who does not hold it`)
  throw refuse(
    'invalid_customer_id',
    `${what} is held for a customer: name the customer with X-Reseller-Customer-Id, whose credit pays`,
  )
}
