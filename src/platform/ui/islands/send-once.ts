/**
 * Sends a form that counts once (it has a field `form`) only once. A second press before the answer would replace the
 * page that shows the result of the first one, such as a new API key. Every page of a signed-in person loads it.
 */
const sentForms = new Set<HTMLFormElement>()

document.addEventListener('submit', (event) => {
  const { target: form, submitter, defaultPrevented } = event
  const reads = submitter instanceof HTMLButtonElement && submitter.formMethod === 'get'
  if (defaultPrevented || reads || !(form instanceof HTMLFormElement)) return
  if (form.elements.namedItem('form') === null) return
  if (sentForms.has(form)) event.preventDefault()
  // Browsers from before 2026 do not report Stop, so the form could not be sent again.
  else if (window.navigation) sentForms.add(form)
})

// The user pressed Stop during a submission.
window.navigation?.addEventListener('navigateerror', () => sentForms.clear())
// Back may show this page in its last state.
window.addEventListener('pageshow', () => sentForms.clear())
