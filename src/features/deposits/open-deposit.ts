import { requestFingerprint } from '../../kernel/digest.ts'
import type { Cause } from '../../kernel/event.ts'
import { type DepositId, depositIdOf } from '../../kernel/ids.ts'
import type { DepositRequest, Deposits } from './deposit-service.ts'

/** A deposit that a form of the console asks for. */
export type FormDeposit = Pick<
  DepositRequest,
  'accountId' | 'customerId' | 'relate' | 'amountCents' | 'rail'
> & {
  /** The key of the form: sent again, it gives the same deposit. */
  readonly key: string
  /** The path of the form's page. */
  readonly path: string
}

/** Opens a deposit with its invoice. @throws ApiError as `Deposits.open` */
export type OpenDepositByForm = (asked: FormDeposit, cause: Cause) => Promise<DepositId>

/** The payer lands on the page of the deposit afterwards. */
export const createOpenDepositByForm =
  ({
    deposits,
    origin,
  }: {
    readonly deposits: Pick<Deposits, 'open'>
    /** Where people reach the console. */
    readonly origin: () => string
  }): OpenDepositByForm =>
  async ({ key, path, ...asked }, cause) => {
    const { accountId, customerId, amountCents, rail } = asked
    const body = { amount_cents: amountCents, method: rail }
    const { deposit } = await deposits.open(
      {
        ...asked,
        idempotencyKey: key,
        fingerprint: requestFingerprint({ method: 'POST', path, productId: '', body, customerId }),
        returnUrl: `${origin()}/console/deposits/${depositIdOf(accountId, customerId, key, 0)}`,
        pending: null,
      },
      cause,
    )
    return deposit.details.depositId
  }
