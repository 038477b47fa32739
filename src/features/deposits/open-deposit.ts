import { requestFingerprint } from '../../kernel/digest.ts'
import type { Cause } from '../../kernel/event.ts'
import { type DepositId, depositIdOf } from '../../kernel/ids.ts'
import type { DepositRequest, Deposits } from './deposit-service.ts'

/** A deposit of a console form. */
type FormDeposit = Pick<DepositRequest, 'accountId' | 'customerId' | 'relate' | 'amountCents' | 'rail'> & {
  /** The key of the form. A repeated submission returns the same deposit. */
  readonly key: string
  /** The path of the form's page. */
  readonly path: string
}

/** Opens a deposit with its invoice. @throws ApiError as `Deposits.open` */
export type OpenDepositByForm = (input: FormDeposit, cause: Cause) => Promise<DepositId>

/** The payer returns to the page of the deposit. */
export const createOpenDepositByForm =
  ({
    deposits,
    origin,
  }: {
    readonly deposits: Pick<Deposits, 'open'>
    /** The public URL of the console. */
    readonly origin: () => string
  }): OpenDepositByForm =>
  async ({ key, path, ...input }, cause) => {
    const { accountId, customerId, amountCents, rail } = input
    const body = { amount_cents: amountCents, method: rail }
    const { deposit } = await deposits.open(
      {
        ...input,
        idempotencyKey: key,
        fingerprint: requestFingerprint({ method: 'POST', path, productId: '', body, customerId }),
        returnUrl: `${origin()}/console/deposits/${depositIdOf(accountId, customerId, key, 0)}`,
        pending: null,
      },
      cause,
    )
    return deposit.details.depositId
  }
