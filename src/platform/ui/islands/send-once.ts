/**
 * Sends a form that counts once (it has a field `form`) once. Another press, while the answer is on its way, would replace the
 * page that shows what the first one did, such as a new API key. Loaded by every page of a person who is signed in.
 */
const sentForms = new Set<HTMLFormElement>()

document.addEventListener('submit', (event) => {
  const { target: form, submitter, defaultPrevented } = event
  const reads = submitter instanceof HTMLButtonElement && submitter.formMethod === 'get'
  if (defaultPrevented || reads || !(form instanceof HTMLFormElement)) return
  if (form.elements.namedItem('form') === null) return
  if (sentForms.has(form)) event.preventDefault()
  // Browsers of before 2026 do not report Stop, and the form could not be sent again.
  else if (window.navigation) sentForms.add(form)
})

// Somebody pressed Stop while a form was on its way.
window.navigation?.addEventListener('navigateerror', () => sentForms.clear())
// Back may show this page as it was left.
window.addEventListener('pageshow', () => sentForms.clear())
