import type { Denied } from '../gateway-ports.ts'
import { refuse } from '../refusals.ts'

/** The same answer for all wrong credentials, so that it does not reveal which plans exist. */
export const wrongCredentials = refuse(
  407,
  'wrong_credentials',
  'The username or the password is wrong, or the line belongs to another plan. Generate the line again.',
)

export const noCredentials = refuse(
  407,
  'credentials_required',
  'Send the username and the password of a generated line, or connect from an address on the whitelist of a plan.',
)

export const accountBlocked = refuse(
  407,
  'account_blocked',
  'The account of this line is blocked. Ask its owner.',
)

export const planEnded = refuse(
  407,
  'plan_ended',
  'The time of this plan is over. Order it again, and generate new lines.',
)

export const rentalEnded = refuse(407, 'rental_ended', 'The rental of this address is over.')

export const credentialRotated = refuse(
  407,
  'credential_rotated',
  'The password of this plan was changed. Generate the lines again.',
)

export const tokenRefused = (token: string, detail: string): Denied =>
  refuse(403, 'targeting_refused', `${token}: ${detail}`)

export const tooManyConnections = (limit: number): Denied =>
  refuse(
    503,
    'too_many_connections',
    `This plan has ${limit} connections open here, which is the limit. Close some, or try again.`,
    1,
  )

export const sessionLimitReached = refuse(
  467,
  'session_limit_reached',
  'The traffic cap of this session (its -limit- token) is spent. Take a new session id.',
)

export const trafficExhausted = refuse(
  466,
  'traffic_exhausted',
  'The traffic of this plan is used up. Top it up, and the same line works again.',
)

export const databaseUnavailable = refuse(
  503,
  'gateway_unavailable',
  'The gateway cannot reach its books. Try again shortly; nothing was counted.',
  5,
)
