/** The page's script: search, the theme, copying, the server's own address in the samples. It asks nothing of any server. */
export const script = `
const all = (selector, root = document) => [...root.querySelectorAll(selector)]
for (const span of all('.origin')) if (location.origin.startsWith('http')) span.textContent = location.origin

const root = document.documentElement
const stored = (() => { try { return localStorage.getItem('theme') } catch { return null } })()
if (stored) root.dataset.theme = stored
document.getElementById('theme').addEventListener('click', () => {
  const dark = root.dataset.theme ? root.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches
  root.dataset.theme = dark ? 'light' : 'dark'
  try { localStorage.setItem('theme', root.dataset.theme) } catch { /* private windows keep nothing */ }
})

// Over plain HTTP from another machine a browser has no clipboard to write to: then the command is selected.
const copy = async (code) => {
  try { await navigator.clipboard.writeText(code.textContent); return true } catch { /* selected below */ }
  getSelection().selectAllChildren(code)
  return document.execCommand('copy')
}
for (const button of all('.copy')) button.addEventListener('click', async () => {
  const code = button.parentElement.querySelector('code')
  button.textContent = (await copy(code)) ? 'Copied' : 'Press Ctrl+C'
  setTimeout(() => { button.textContent = 'Copy' }, 1500)
})

const search = document.getElementById('search')
const items = all('[data-find]')
const links = new Map(all('nav li a').map((link) => [link.hash.slice(1), link]))
const find = () => {
  const words = search.value.toLowerCase().split(/\\s+/).filter(Boolean)
  for (const item of items) {
    item.hidden = !words.every((word) => item.dataset.find.includes(word))
    const link = links.get(item.id)
    if (link) link.parentElement.hidden = item.hidden
  }
  for (const section of all('section.tag')) section.hidden = words.length > 0 && !all('[data-find]', section).some((item) => !item.hidden)
  for (const list of all('nav ul')) list.previousElementSibling.hidden = words.length > 0 && !all('li', list).some((item) => !item.hidden)
  document.querySelector('.empty').hidden = items.some((item) => !item.hidden)
}
search.addEventListener('input', find)
document.addEventListener('keydown', (event) => {
  if (event.key === '/' && document.activeElement !== search) { event.preventDefault(); search.focus() }
  if (event.key === 'Escape' && document.activeElement === search) { search.value = ''; find(); search.blur() }
})

const seen = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    if (!isIntersecting) continue
    for (const link of links.values()) link.removeAttribute('aria-current')
    links.get(target.id)?.setAttribute('aria-current', 'true')
  }
}, { rootMargin: '-15% 0px -75% 0px' })
for (const article of all('article.operation')) seen.observe(article)
`
