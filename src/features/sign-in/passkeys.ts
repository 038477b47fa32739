import { createHmac, type KeyObject, randomBytes, timingSafeEqual } from 'node:crypto'
import type {
  AuthenticationResponseJSON,
  AuthenticatorTransport,
  PublicKeyCredentialCreationOptionsJSON,
  PublicKeyCredentialRequestOptionsJSON,
  RegistrationResponseJSON,
} from '@simplewebauthn/server'
import type pg from 'pg'
import type { Logger } from 'pino'
import { type Clock, isoTime } from '../../kernel/clock.ts'
import type { Cause } from '../../kernel/event.ts'
import { newId } from '../../kernel/ids.ts'
import type { SingleUse } from '../../platform/ui/page-access.ts'
import { deriveKey, type MasterKey } from '../../platform/vault/keys.ts'
import { commitmentOf, freshSalt, saltedText } from '../../platform/vault/seal.ts'
import type { People } from './people.ts'

/** The commitment of an event to a passkey: its owner, and its credential id and public key. */
export const passkeyCommitment = (passkey: {
  readonly passkeyId: string
  readonly subjectId: string
  readonly salt: Uint8Array
  readonly credentialId: string
  readonly publicKey: Uint8Array
}): string =>
  commitmentOf(
    { what: 'passkey', id: passkey.passkeyId, owner: passkey.subjectId },
    saltedText(passkey.salt, passkey.credentialId, passkey.publicKey),
  )

type Passkey = {
  readonly passkeyId: string
  readonly name: string
  readonly createdAt: string
  readonly usedAt: string | null
}

/** The purpose of a challenge: `sign-in`, `add ses_…`, `confirm ses_… /console/keys/new`. */
type Purpose = string

/** Passkeys (WebAuthn) of people. An answer is checked against its challenge, and each challenge is accepted once. */
export type Passkeys = {
  creationOptions(
    person: { readonly subjectId: string; readonly name: string },
    purpose: Purpose,
  ): Promise<PublicKeyCredentialCreationOptionsJSON>
  /** Options for one person's keys; null: for any key that the browser offers. */
  requestOptions(subjectId: string | null, purpose: Purpose): Promise<PublicKeyCredentialRequestOptionsJSON>
  /**
   * Stores the passkey of an answer to `creationOptions` under a new id; null if the answer is invalid. It can sign in
   * once a `PasskeyAdded` event contains the commitment.
   */
  create(
    person: { readonly subjectId: string },
    name: string,
    answer: string,
    purpose: Purpose,
  ): Promise<{ readonly passkeyId: string; readonly commitment: string } | null>
  /**
   * The owner of the passkey that answered `requestOptions`. Null if the answer is invalid, or if the log has no such
   * passkey of this person. Also null, and logged, if the passkey in the vault differs from the commitment of its
   * event.
   */
  verify(
    answer: string,
    purpose: Purpose,
    cause: Cause,
  ): Promise<{ readonly subjectId: string; readonly passkeyId: string } | null>
  list(subjectId: string): Promise<readonly Passkey[]>
  remove(subjectId: string, passkeyId: string): Promise<void>
}

/** Ed25519, ES256 and RS256 (RFC 9053): every authenticator supports one of them. */
const algorithms = [-8, -7, -257] as const

const challengeMs = 10 * 60_000
const nonceBytes = 16
const timeBytes = 8
const macBytes = 32

/** A challenge contains a MAC over its purpose and expiry, so that showing a page writes nothing. */
const challenges = (key: KeyObject, clock: Clock) => {
  const macOf = (head: Buffer, purpose: Purpose): Buffer =>
    createHmac('sha256', key).update(head).update(purpose).digest()
  return {
    make: (purpose: Purpose): Uint8Array<ArrayBuffer> => {
      const head = Buffer.alloc(nonceBytes + timeBytes)
      randomBytes(nonceBytes).copy(head)
      head.writeBigUInt64BE(BigInt(clock() + challengeMs), nonceBytes)
      return new Uint8Array(Buffer.concat([head, macOf(head, purpose)]))
    },
    fits: (challenge: string, purpose: Purpose): boolean => {
      const bytes = Buffer.from(challenge, 'base64url')
      if (bytes.length !== nonceBytes + timeBytes + macBytes) return false
      const head = bytes.subarray(0, nonceBytes + timeBytes)
      const isAuthentic = timingSafeEqual(bytes.subarray(nonceBytes + timeBytes), macOf(head, purpose))
      return isAuthentic && clock() < Number(head.readBigUInt64BE(nonceBytes))
    },
  }
}

/** Parses a browser's answer to an object with an id; null for anything else. */
const parsed = <Answer extends { readonly id: string }>(text: string): Answer | null => {
  try {
    const answer: unknown = JSON.parse(text)
    const hasId = typeof answer === 'object' && answer !== null && 'id' in answer
    return hasId && typeof answer.id === 'string' ? (answer as unknown as Answer) : null
  } catch {
    return null
  }
}

type Row = {
  readonly passkey_id: string
  readonly credential_id: string
  readonly subject_id: string
  readonly public_key: Buffer
  readonly sign_count: number
  readonly transports: readonly string[]
  readonly salt: Buffer | null
}

// Imported on first use, because the start does not need it.
const webauthn = () => import('@simplewebauthn/server')

export const createPasskeys = (dependencies: {
  readonly pool: pg.Pool
  readonly clock: Clock
  readonly once: SingleUse
  readonly master: MasterKey
  readonly people: Pick<People, 'read'>
  readonly logger: Pick<Logger, 'error'>
  /** The origin of the console, e.g. `https://shop.example`. */
  readonly origin: () => string
}): Passkeys => {
  const { pool, clock, once, people, logger, origin } = dependencies
  const challenge = challenges(deriveKey(dependencies.master, 'console challenges v1'), clock)
  const rpId = (): string => new URL(origin()).hostname

  const keysOf = async (subjectId: string): Promise<readonly Row[]> =>
    (
      await pool.query<Row>(
        `select passkey_id, credential_id, subject_id, public_key, sign_count, transports, salt
           from vault.console_passkeys where subject_id = $1::text order by passkey_id`,
        [subjectId],
      )
    ).rows

  const descriptorsOf = (rows: readonly Row[]) =>
    rows.map((row) => ({
      id: row.credential_id,
      transports: row.transports as AuthenticatorTransport[],
    }))

  /** Accepts each challenge once. */
  const spend = (answer: string): Promise<boolean> => once.spend(`passkey ${answer}`, challengeMs)

  /** The checks of the package throw on invalid answers. */
  const orNull = async <Verified>(verify: () => Promise<Verified>): Promise<Verified | null> => {
    try {
      return await verify()
    } catch {
      return null // the only cause is an invalid answer of the browser
    }
  }

  const isCommitted = async (row: Row, cause: Cause): Promise<boolean> => {
    const { passkey_id: passkeyId, subject_id: subjectId, salt } = row
    const committed = (await people.read(subjectId, cause)).passkeys.get(passkeyId)
    if (committed === undefined) return false
    const storedKey = { credentialId: row.credential_id, publicKey: row.public_key }
    if (salt !== null && committed === passkeyCommitment({ passkeyId, subjectId, salt, ...storedKey }))
      return true
    logger.error(
      { subjectId, passkeyId },
      'a passkey is not the one that its event commits to: it opens nothing',
    )
    return false
  }

  return {
    creationOptions: async ({ subjectId, name }, purpose) => {
      const { generateRegistrationOptions } = await webauthn()
      return generateRegistrationOptions({
        rpName: 'Farebox',
        rpID: rpId(),
        userName: name,
        userID: new TextEncoder().encode(subjectId) as Uint8Array<ArrayBuffer>,
        challenge: challenge.make(purpose),
        timeout: challengeMs,
        attestationType: 'none',
        supportedAlgorithmIDs: [...algorithms],
        excludeCredentials: descriptorsOf(await keysOf(subjectId)),
        authenticatorSelection: { residentKey: 'required', userVerification: 'required' },
      })
    },

    requestOptions: async (subjectId, purpose) => {
      const { generateAuthenticationOptions } = await webauthn()
      return generateAuthenticationOptions({
        rpID: rpId(),
        challenge: challenge.make(purpose),
        timeout: challengeMs,
        userVerification: 'required',
        ...(subjectId !== null && { allowCredentials: descriptorsOf(await keysOf(subjectId)) }),
      })
    },

    create: async ({ subjectId }, name, answer, purpose) => {
      const response = parsed<RegistrationResponseJSON>(answer)
      if (response === null) return null
      const { verifyRegistrationResponse } = await webauthn()
      let usedChallenge = ''
      const verified = await orNull(() =>
        verifyRegistrationResponse({
          response,
          expectedChallenge: (receivedChallenge) => {
            usedChallenge = receivedChallenge
            return challenge.fits(receivedChallenge, purpose)
          },
          expectedOrigin: origin(),
          expectedRPID: rpId(),
          requireUserVerification: true,
          supportedAlgorithmIDs: [...algorithms],
        }),
      )
      if (!verified?.verified || !(await spend(usedChallenge))) return null
      const { credential } = verified.registrationInfo
      const passkeyId = newId<string>('psk', subjectId)
      const salt = freshSalt()
      const publicKey = Buffer.from(credential.publicKey)
      const { rowCount } = await pool.query(
        `insert into vault.console_passkeys (passkey_id, credential_id, subject_id, name, public_key, sign_count,
           transports, created_at, salt)
         values ($1::text, $2::text, $3::text, $4::text, $5::bytea, $6::bigint, $7::text[], $8::timestamptz,
           $9::bytea)
         on conflict (credential_id) do nothing`,
        [
          passkeyId,
          credential.id,
          subjectId,
          name,
          publicKey,
          credential.counter,
          credential.transports ?? [],
          isoTime(clock()),
          salt,
        ],
      )
      const commitment = passkeyCommitment({
        passkeyId,
        subjectId,
        salt,
        credentialId: credential.id,
        publicKey,
      })
      return rowCount === 1 ? { passkeyId, commitment } : null
    },

    verify: async (answer, purpose, cause) => {
      const response = parsed<AuthenticationResponseJSON>(answer)
      if (response === null) return null
      const { rows } = await pool.query<Row>(
        `select passkey_id, credential_id, subject_id, public_key, sign_count, transports, salt
           from vault.console_passkeys where credential_id = $1::text`,
        [response.id],
      )
      const [row] = rows
      if (!row || !(await isCommitted(row, cause))) return null
      const { verifyAuthenticationResponse } = await webauthn()
      let usedChallenge = ''
      const verified = await orNull(() =>
        verifyAuthenticationResponse({
          response,
          expectedChallenge: (receivedChallenge) => {
            usedChallenge = receivedChallenge
            return challenge.fits(receivedChallenge, purpose)
          },
          expectedOrigin: origin(),
          expectedRPID: rpId(),
          requireUserVerification: true,
          credential: {
            id: row.credential_id,
            publicKey: new Uint8Array(row.public_key),
            counter: row.sign_count,
            transports: row.transports as AuthenticatorTransport[],
          },
        }),
      )
      if (!verified?.verified || !(await spend(usedChallenge))) return null
      await pool.query(
        `update vault.console_passkeys set sign_count = $2::bigint, used_at = $3::timestamptz
          where passkey_id = $1::text`,
        [row.passkey_id, verified.authenticationInfo.newCounter, isoTime(clock())],
      )
      return { subjectId: row.subject_id, passkeyId: row.passkey_id }
    },

    list: async (subjectId) => {
      const { rows } = await pool.query<{
        passkey_id: string
        name: string
        created_at: string
        used_at: string | null
      }>(
        `select passkey_id, name, created_at, used_at from vault.console_passkeys
          where subject_id = $1::text order by passkey_id`,
        [subjectId],
      )
      return rows.map((row) => ({
        passkeyId: row.passkey_id,
        name: row.name,
        createdAt: row.created_at,
        usedAt: row.used_at,
      }))
    },

    remove: async (subjectId, passkeyId) => {
      await pool.query(
        'delete from vault.console_passkeys where subject_id = $1::text and passkey_id = $2::text',
        [subjectId, passkeyId],
      )
    },
  }
}
