import { type Decided, decided, type Fold } from '../../kernel/decider.ts'
import { defineEvent, type EventOf } from '../../kernel/event.ts'
import { integer } from '../../kernel/event-fields.ts'
import { adoptionStream } from '../../kernel/streams.ts'

/** `adoption` */
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
export type CommitmentsAdopted = EventOf<typeof commitmentsAdopted>

export const adoptionEventDefinitions = [commitmentsAdopted] as const

/** Whether the adoption is over. */
const adoptionFold: Fold<boolean, CommitmentsAdopted> = {
  name: 'adoption',
  version: 1,
  initial: false,
  evolve: () => true,
}

export const adoptionRef = { stream: adoptionStream, fold: adoptionFold }

export const decideAdoptionEnd = (
  over: boolean,
  adopted: CommitmentsAdopted['data'],
): Decided<CommitmentsAdopted> => (over ? decided() : decided({ type: 'CommitmentsAdopted', data: adopted }))
