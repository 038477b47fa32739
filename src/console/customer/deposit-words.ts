import type { DepositStatus } from '../../money/deposits/fold.ts'
import type { Rail } from '../../money/payments/rails.ts'
import type { Html } from '../../platform/pages/html.ts'
import { stateText } from './words.ts'

const railNamesOfPeople: Partial<Record<Rail, string>> = {
  card: 'Card',
  crypto: 'Crypto',
  alipay: 'Alipay',
  wechat: 'WeChat Pay',
}

/** How people call a way to pay. */
export const railName = (rail: string): string => railNamesOfPeople[rail as Rail] ?? rail

const looks: Readonly<Record<DepositStatus, readonly [string, 'good' | 'warn' | 'bad' | 'off']>> = {
  awaiting_payment: ['awaits payment', 'warn'],
  processing: ['being confirmed', 'warn'],
  paid: ['paid', 'good'],
  partially_paid: ['paid in part', 'warn'],
  expired: ['expired', 'off'],
  failed: ['failed', 'bad'],
}

export const depositState = (status: DepositStatus): Html => stateText(...looks[status])
