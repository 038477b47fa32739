import { type Decided, decided, type Fold } from '../../kernel/decider.ts'
import { defineEvent, type EventOf } from '../../kernel/event.ts'
import { integer } from '../../kernel/event-fields.ts'
import { adoptionStream } from '../../kernel/streams.ts'

/** The stream `adoption`. */
export const commitmentsAdopted = defineEvent('CommitmentsAdopted', {
  stream: 'adoption',
  means:
    'An upgrade has committed to all that older releases had put into the vault. It happens once; nothing is adopted after it.',
  fields: {
    accounts: integer('accounts', '0 or more', 'whose e-mail or keys were adopted'),
    people: integer('people', '0 or more', 'whose e-mail or passkeys were adopted'),
    tokens: integer('finance tokens', '0 or more', 'that were adopted'),
  },
})
/** A separate type, because unreleased versions before 0.2.0 adopted everything except the whitelists. */
export const whitelistsAdopted = defineEvent('WhitelistsAdopted', {
  stream: 'adoption',
  means:
    'An upgrade has committed to the entries of all whitelists that older releases had put into the vault. It happens once; no entry is adopted after it.',
  fields: { entries: integer('entries', '0 or more', 'that were adopted') },
})
export type CommitmentsAdopted = EventOf<typeof commitmentsAdopted>
export type WhitelistsAdopted = EventOf<typeof whitelistsAdopted>

export const adoptionEventDefinitions = [commitmentsAdopted, whitelistsAdopted] as const
export type AdoptionEvent = EventOf<(typeof adoptionEventDefinitions)[number]>

/** The types of the finished adoptions. */
const adoptionFold: Fold<ReadonlySet<AdoptionEvent['type']>, AdoptionEvent> = {
  name: 'adoption',
  version: 2,
  initial: new Set(),
  evolve: (adoptedTypes, { type }) => new Set([...adoptedTypes, type]),
}

export const adoptionRef = { stream: adoptionStream, fold: adoptionFold }

export const decideAdoptionEnd = (
  adoptedTypes: ReadonlySet<AdoptionEvent['type']>,
  end: AdoptionEvent,
): Decided<AdoptionEvent> => (adoptedTypes.has(end.type) ? decided() : decided(end))
