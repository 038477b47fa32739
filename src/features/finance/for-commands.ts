import { InvalidArgumentError } from 'commander'
import { momentForms, parseMoment, type TypedMoment } from './input-forms.ts'

export { bookForms, momentForms, type TypedMoment } from './input-forms.ts'

export const momentText = (text: string): TypedMoment => {
  const moment = parseMoment(text)
  if (moment !== null) return moment
  throw new InvalidArgumentError(`It must be ${momentForms}.`)
}
